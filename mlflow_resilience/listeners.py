"""Who listens to a fit's journal: whoever the user wants notified, what is kept for a replay, the model's sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow_resilience import forensics, notify
from mlflow_resilience.core import bytesize
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.display import Aside
from mlflow_resilience.job import Job
from mlflow_resilience.listening import Listening
from mlflow_resilience.training.model_size import ModelSize
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.replay_store import ReplayStore

Before = Callable[[int, Any], Any]


class Listeners:
    """``journal`` is the job's with all of them listening. Raises UsageError for a size or an address that is none."""

    def __init__(self, job: Job, policy: Policy, plan: Plan, checkpoints: Path, replay: str) -> None:
        notify.arm(job.folder, policy.notify)
        self.journal = Listening(job.journal)
        self._caller = notify.caller(
            job.journal, policy.notify, job_id=job.folder.job_id, run_id=job.entry.get("run_id")
        )
        limit = bytesize.parse(replay)
        store = ReplayStore(job.folder.artifacts / "replay", checkpoints, job.journal, limit)
        self._replay = store if limit else None
        verbose = plan.arguments.get("verbose")
        aside = None if job.supervised else Aside(below_a_bar=verbose in ("auto", 1))
        for listener in (self._caller, self._replay, ModelSize(plan.model, plan.training, _telling(job)), aside):
            if listener is not None:
                self.journal.add(listener)

    def watching(self, before: Before) -> Before:
        """``before``, which gives each step its batch, with the replay's store looking on."""
        return self._replay.watch(before) if self._replay is not None else before

    def close(self) -> None:
        """Training has ended: whoever is being told is waited for, for a while."""
        if self._caller is not None:
            self._caller.close()


def _telling(job: Job) -> Callable[[dict[str, Any]], None]:
    def tell(sizes: dict[str, Any]) -> None:
        job.journal.append("event", name=forensics.MODEL_SIZE, attempt=0, step=0, text="", data=sizes)

    return tell
