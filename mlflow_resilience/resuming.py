"""Where a job goes on: from its own checkpoints, from those of an earlier job, or from the start."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

from mlflow_resilience.errors import UsageError
from mlflow_resilience.job import Job
from mlflow_resilience.spool import atomic
from mlflow_resilience.training import checkpoint
from mlflow_resilience.training.attempt import Plan
from mlflow_resilience.training.identity import resume_key
from mlflow_resilience.training.keeper import Keeper
from mlflow_resilience.training.state import TrainingState

_ANSWER_SECONDS = 60.0
_LOOK_SECONDS = 0.05


class NothingToDo(Exception):
    """The job that is to be gone on with has finished, and no more epochs are asked for."""


class Resuming:
    """Finds the training state that a job starts from. Asked once, when model and optimiser are whole."""

    def __init__(self, job: Job, keeper: Keeper, plan: Plan, resume: str, identity: dict[str, Any]) -> None:
        self._job, self._keeper, self._plan = job, keeper, plan
        self._resume, self._identity = resume, identity

    def find(self) -> TrainingState | None:
        """The state to go on from; None for a fresh start.

        Raises UsageError when a job that was named cannot be gone on with, NothingToDo when it has finished.
        """
        own = self._keeper.newest()
        if own is not None:
            return own
        key = resume_key(self._plan.model, self._plan.training, self._plan.validation, **self._identity)
        self._job.journal.append("tags", run="job", tags={"resilience.resume_key": key})
        if self._resume == "never" or self._job.log().attempt > 0:
            return None
        answer = self._ask(key)
        if answer.get("refused"):
            raise UsageError(f"resume={self._resume}: {answer['refused']}")
        if answer.get("nothing_to_do"):
            raise NothingToDo(str(answer.get("text")))
        if not answer.get("found"):
            self._say(str(answer.get("text") or "starting at step 0"))
            return None
        return self._take_over(answer)

    def _ask(self, key: str) -> dict[str, Any]:
        request = uuid.uuid4().hex[:12]
        self._job.journal.append(
            "ask",
            durable=True,
            request=request,
            question="resume",
            resume=self._resume,
            resume_key=key,
            epochs=self._plan.epochs,
        )
        path = self._job.folder.answers / f"{request}.json"
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            answer = atomic.read_json(path)
            if isinstance(answer, dict):
                return answer
            time.sleep(_LOOK_SECONDS)
        return {"found": False, "text": "starting at step 0: nobody answered whether there is an earlier job"}

    def _take_over(self, answer: dict[str, Any]) -> TrainingState | None:
        """Make the newest intact checkpoint of the earlier job the first of this one."""
        source = Path(answer["checkpoint_folder"])
        for path in reversed(checkpoint.complete(source)):
            try:
                state = checkpoint.read(path)
            except checkpoint.CheckpointError as error:
                self._say(f"checkpoint {path.name} of the earlier job is damaged: {error}", "checkpoint_unreadable")
                continue  # it is another job's: left where it is
            target = self._job.folder.checkpoints / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(path, target, copy_function=_link_or_copy)
            step = state.meta["position"]["global_step"]
            self._job.journal.append(
                "resumed",
                durable=True,
                from_job=answer.get("from_job"),
                from_run=answer.get("from_run"),
                from_model=answer.get("from_model"),
                from_step=step,
                text=str(answer.get("text") or f"going on from step {step}"),
            )
            return state
        self._say("starting at step 0: no checkpoint of the earlier job is intact")
        return None

    def _say(self, text: str, name: str = "start") -> None:
        self._job.journal.append("event", name=name, attempt=0, step=0, text=text, data={})


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


