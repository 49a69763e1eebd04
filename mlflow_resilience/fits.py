"""Which of a job's fits is it? A script that is started again calls them again, in the same order."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

from mlflow_resilience.job import Job
from mlflow_resilience.spool.journal import read


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A fit's place among those of its job. ``begun`` when an earlier process called it already."""

    index: int = 0
    first_step: int = 0
    begun: bool = False

    def checkpoints(self, folder: Path) -> Path:
        """Where its checkpoints are, below those of the job."""
        return folder / f"fit-{self.index:03d}" if self.index else folder


def program() -> str:
    """A digest of the command that this process runs."""
    return hashlib.sha256("\0".join(sys.orig_argv[1:]).encode(errors="replace")).hexdigest()[:16]


def take_turn(job: Job, call: int) -> Turn:
    """The turn of the fit that this program calls as its ``call``-th, from 0. A new one goes on from the step that
    the job has reached."""
    job.journal.flush()
    index = step = 0
    for entry, _ in read(job.folder.journal):
        kind, name = entry.get("kind"), entry.get("name")
        if kind == "attempt_ended" or (kind == "event" and name == "fit_completed"):
            step = int(entry.get("step") or 0)
        if kind == "event" and name == "fit_begun":
            data = entry.get("data") or {}
            if (data.get("program"), data.get("call")) == (program(), call):
                return Turn(index=int(data["fit"]), first_step=int(data["first_step"]), begun=True)
            index += 1
    data = {"fit": index, "first_step": step, "program": program(), "call": call}
    text = f"fit {index + 1} of the job begins at step {step}" if index else ""
    job.journal.append("event", durable=True, name="fit_begun", attempt=0, step=step, text=text, data=data)
    return Turn(index=index, first_step=step)


def tell_completed(job: Job, turn: Turn, step: int) -> None:
    """The fit has ended, and its last state is on disk."""
    data = {"fit": turn.index}
    job.journal.append("event", durable=True, name="fit_completed", attempt=0, step=step, text="", data=data)
