"""A job: its folder, its journal, who looks after it, and the sender beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow_resilience.core.attempt import AttemptLog
from mlflow_resilience.spool.folder import JobFolder, home
from mlflow_resilience.spool.journal import Journal, read
from mlflow_resilience.spool.process import identity

_SENDER = (sys.executable, "-m", "mlflow_resilience.sender")


@dataclass(kw_only=True)
class Job:
    """A job's folder and journal, and who looks after it. ``supervised`` when a supervisor started this process."""

    folder: JobFolder
    journal: Journal
    supervised: bool
    entry: dict[str, Any] = field(default_factory=dict)
    lease: Any = None

    @property
    def started(self) -> float:
        return float(self.entry.get("started") or time.time())

    def log(self) -> AttemptLog:
        """The record of attempts so far."""
        self.journal.flush()
        return AttemptLog.read(entry for entry, _ in read(self.folder.journal))

    def struck(self) -> Counter[str]:
        """How often each fault on purpose has struck, in this job and in those that it goes on with."""
        self.journal.flush()
        return _struck(self.folder)


def _struck(folder: JobFolder) -> Counter[str]:
    counts: Counter[str] = Counter()
    for entry, _ in read(folder.journal):
        if entry.get("kind") == "event" and entry.get("name") == "fault_on_purpose":
            counts[entry["data"]["fault"]] += 1
        elif entry.get("kind") == "resumed" and entry.get("from_job"):
            earlier = folder.path.parent / str(entry["from_job"])
            if earlier.is_dir():
                counts.update(_struck(JobFolder.open(earlier)))
    return counts


def join() -> Job | None:
    """The job that a supervisor started this process for."""
    path = os.environ.get("MLFLOW_RESILIENCE_JOB")
    if not path:
        return None
    folder = JobFolder.open(Path(path))
    entry = next((entry for entry, _ in read(folder.journal) if entry.get("kind") == "job"), {})
    return Job(folder=folder, journal=folder.open_journal(), supervised=True, entry=entry)


def begin(entry: Mapping[str, Any]) -> Job:
    """A job of this process's own, with a sender beside it."""
    folder = JobFolder.create(home())
    lease = folder.lease("process")
    journal = folder.open_journal()
    entry = {"job_id": folder.job_id, "started": time.time(), "parent_owns_end": False, **_callers_run(), **entry}
    journal.append("header", durable=True, job_id=folder.job_id)
    journal.append("job", durable=True, **entry)
    journal.append("owner", durable=True, **identity("process"))
    with folder.sender_log.open("ab") as log:
        subprocess.Popen(
            [*_SENDER, os.fspath(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Job(folder=folder, journal=journal, supervised=False, entry=dict(entry), lease=lease)


def end(job: Job, outcome: str, exit_code: int, text: str = "") -> None:
    """Close a job of this process's own; the sender delivers the rest by itself."""
    job.journal.append("job_ended", durable=True, outcome=outcome, exit_code=exit_code, text=text)
    job.journal.close()
    if job.lease is not None:
        job.lease.release()


def _callers_run() -> dict[str, Any]:
    """The MLflow run that this process has open, if it has: the job is logged in it, and its end stays its own."""
    mlflow = sys.modules.get("mlflow")
    active = mlflow.active_run() if mlflow is not None else None
    if mlflow is None or active is None:
        return {"run_id": os.environ.get("MLFLOW_RUN_ID"), "tracking_uri": os.environ.get("MLFLOW_TRACKING_URI")}
    return {
        "run_id": active.info.run_id,
        "experiment_id": active.info.experiment_id,
        "tracking_uri": mlflow.get_tracking_uri(),
        "caller_owns_end": True,
    }
