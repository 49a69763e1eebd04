"""Delivers what waits on disk: one sender after another, each a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mlflow_resilience.core.redaction import HIDDEN
from mlflow_resilience.spool.folder import JobFolder, jobs
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.tracking.local_jobs import owner_of

PACKAGE_PARENT = str(Path(__file__).parents[2])
SENDER = (sys.executable, "-m", "mlflow_resilience.sender")


@dataclass(frozen=True)
class Delivered:
    """What became of one job: ``done`` when MLflow has everything of it."""

    job_id: str
    run_id: str | None
    done: bool
    message: str


def waiting(home: Path) -> Iterator[JobFolder]:
    """The jobs whose owner is gone and that MLflow does not have whole, newest first."""
    for folder in jobs(home):
        if folder.read_sender_state().get("state") == "done" or folder.sender() is not None:
            continue
        record = JobRecord.read(folder.journal)
        if record.job and (record.ended is not None or owner_of(folder, record) is None):
            yield folder


def sync(
    home: Path, *, tracking_uri: str | None = None, patience: float = 60.0, most: int | None = None,
    say: Callable[[Delivered], None] = lambda delivered: None,
) -> list[Delivered]:  # fmt: skip
    """Deliver what waits in the home, closing the runs of jobs that died. ``patience`` is for each job, in seconds
    without success; ``say`` is called after each."""
    found = []
    for folder in list(waiting(home))[:most]:
        delivered = deliver(folder, tracking_uri, patience)
        say(delivered)
        found.append(delivered)
    return found


def deliver(folder: JobFolder, tracking_uri: str | None, patience: float) -> Delivered:
    """Run one sender to its end, from the folder that the job was started in: the store may lie there."""
    before = folder.read_sender_state()
    uri = tracking_uri or before.get("tracking_uri")
    environ = {**os.environ, "MLFLOW_RESILIENCE_SENDER_PATIENCE": str(patience)}
    if uri and HIDDEN not in uri:
        environ["MLFLOW_RESILIENCE_TRACKING_URI"] = uri
    place = Path(str(JobRecord.read(folder.journal).header.get("cwd") or "."))
    environ["PYTHONPATH"] = os.pathsep.join([PACKAGE_PARENT, *filter(None, [os.environ.get("PYTHONPATH")])])
    with folder.sender_log.open("ab") as log:
        code = subprocess.run(
            [*SENDER, str(folder.path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, check=False,
            cwd=place if place.is_dir() else None,
        ).returncode  # fmt: skip
    state = folder.read_sender_state()
    message = str(state.get("message") or ("" if code == 0 else f"the sender ended with {code}"))
    return Delivered(folder.job_id, state.get("run_id"), code == 0, message)
