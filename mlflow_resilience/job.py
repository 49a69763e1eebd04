"""A job: its folder, its journal, who looks after it, and the sender beside it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow_resilience.core.attempt import AttemptLog
from mlflow_resilience.errors import TrackingError
from mlflow_resilience.spool.folder import JobFolder, home
from mlflow_resilience.spool.journal import Journal, read
from mlflow_resilience.spool.lease import Lease
from mlflow_resilience.spool.marks import Marks
from mlflow_resilience.spool.process import identity
from mlflow_resilience.supervisor.delivery import REQUIRE_SETTING, Attended, SenderKeeper, tracking_seconds

_SENDER = (sys.executable, "-m", "mlflow_resilience.sender")


@dataclass(kw_only=True)
class Job:
    """A job's folder and journal, and who looks after it. ``supervised`` when a supervisor started this process."""

    folder: JobFolder
    journal: Journal
    supervised: bool
    entry: dict[str, Any] = field(default_factory=dict)
    lease: Any = None
    pid: int = field(default_factory=os.getpid)
    marks: Marks | None = None  # of a process that a supervisor started
    sender: Attended | None = None  # beside a process that no supervisor started

    def asked_by(self) -> str | None:
        """The signal by which the supervisor was asked to end the job, if it was: it passes on another one."""
        return self.folder.read_stop() if self.supervised else None

    @property
    def started(self) -> float:
        return float(self.entry.get("started") or time.time())

    @property
    def config(self) -> dict[str, Any]:
        """The parameters that the supervisor was started with."""
        return dict(self.entry.get("config") or {})

    def claim(self) -> bool:
        """Be the one process of the job that trains; False when another one is, at this moment."""
        if self.lease is None:
            self.lease = Lease.take(self.folder.path / "trainer", "trainer")
        return self.lease is not None

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


_joined: Job | None = None


def join() -> Job | None:
    """The job that a supervisor started this process for: the same each time, and not for a fork of the process."""
    global _joined
    if _joined is not None:
        return _joined if _joined.pid == os.getpid() else None
    path = os.environ.get("MLFLOW_RESILIENCE_JOB")
    if not path:
        return None
    folder = JobFolder.open(Path(path))
    entry = entry_of(folder)
    journal = folder.open_journal()
    _joined = Job(folder=folder, journal=journal, supervised=True, entry=entry, marks=Marks(journal, attempt()))
    _joined.journal.append("owner", durable=True, **identity("worker"))
    return _joined


def entry_of(folder: JobFolder) -> dict[str, Any]:
    """What the journal says of the job: its ``job`` entries, the later ones over the earlier."""
    entry: dict[str, Any] = {}
    for each, _ in read(folder.journal):
        entry.update(each if each.get("kind") == "job" else {})
    return entry


def attempt() -> int:
    """The attempt that the supervisor started this process for."""
    return int(os.environ.get("MLFLOW_RESILIENCE_ATTEMPT") or 1)


def listen_for_stacks(job: Job) -> None:
    """From now on SIGUSR2 has the stacks of all threads written where the supervisor looks for them."""
    stacks = (job.folder.artifacts / f"stacks-{attempt():03d}.txt").open("w")
    faulthandler.register(signal.SIGUSR2, file=stacks, all_threads=True)


def begin(entry: Mapping[str, Any]) -> Job:
    """A job of this process's own, with a sender beside it. Raises TrackingError where MLflow must answer before
    training begins (the setting ``MLFLOW_RESILIENCE_REQUIRE_TRACKING``) and does not."""
    folder = JobFolder.create(home())
    lease = folder.lease("process")
    journal = folder.open_journal()
    entry = {"job_id": folder.job_id, "started": time.time(), "parent_owns_end": False, **_callers_run(), **entry}
    journal.append("header", durable=True, job_id=folder.job_id)
    journal.append("job", durable=True, **entry)
    journal.append("owner", durable=True, **identity("process"))
    uri = str(entry.get("tracking_uri") or "")  # the journal's may lack its credentials
    sender = Attended(SenderKeeper(folder, _SENDER, {"MLFLOW_RESILIENCE_TRACKING_URI": uri} if uri else {}))
    job = Job(folder=folder, journal=journal, supervised=False, entry=dict(entry), lease=lease, sender=sender)
    if is_set(REQUIRE_SETTING) and (refusal := sender.await_run(tracking_seconds())) is not None:
        end(job, "failed", 1, refusal)
        raise TrackingError(refusal)
    return job


def is_set(setting: str) -> bool:
    """Whether the environment says yes to it."""
    return os.environ.get(setting, "").strip().lower() in ("1", "true", "yes", "on")


def end(job: Job, outcome: str, exit_code: int, text: str = "") -> None:
    """Close a job of this process's own; the sender delivers the rest by itself."""
    job.journal.append("job_ended", durable=True, outcome=outcome, exit_code=exit_code, text=text)
    job.journal.close()
    if job.sender is not None:
        job.sender.job_has_ended()
    if job.lease is not None:
        job.lease.release()


def _callers_run() -> dict[str, Any]:
    """The MLflow run that this process has open, if it has: the job is logged in it, and its end stays its own."""
    mlflow = sys.modules.get("mlflow")
    if not hasattr(mlflow, "active_run"):
        return {"run_id": os.environ.get("MLFLOW_RUN_ID"), "tracking_uri": os.environ.get("MLFLOW_TRACKING_URI")}
    assert mlflow is not None
    store, active = {"tracking_uri": mlflow.get_tracking_uri()}, mlflow.active_run()
    if active is None:
        return {**store, "run_id": os.environ.get("MLFLOW_RUN_ID"), "experiment_id": _callers_experiment()}
    run = {"run_id": active.info.run_id, "experiment_id": active.info.experiment_id}
    return {**store, **run, "caller_owns_end": True}


def _callers_experiment() -> str | None:
    """What the script has told `mlflow.set_experiment`."""
    with contextlib.suppress(Exception):  # MLflow has no public way to ask without making one
        from mlflow.tracking import fluent

        return fluent._active_experiment_id or None
    return None
