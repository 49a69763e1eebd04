"""A job's folder on disk, and all the jobs of a home."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool import atomic
from mlflow_resilience.spool.journal import MEGABYTE, Journal
from mlflow_resilience.spool.lease import Lease, holder
from mlflow_resilience.spool.process import host

DEFAULT_HOME = ".mlflow_resilience"
MEMORY_SETTING, MEMORY_MB = "MLFLOW_RESILIENCE_JOURNAL_MEMORY_MB", 64
DISK_SETTING, DISK_MB = "MLFLOW_RESILIENCE_JOURNAL_DISK_MB", 4096


def home() -> Path:
    """``$MLFLOW_RESILIENCE_HOME``, or ``.mlflow_resilience`` in the working directory; absolute."""
    return Path(os.environ.get("MLFLOW_RESILIENCE_HOME") or DEFAULT_HOME).absolute()


@dataclass(frozen=True)
class JobFolder:
    """Where all of one job lies until it is delivered."""

    path: Path

    @classmethod
    def create(cls, home: Path) -> Self:
        """A new job's folder, its journal begun."""
        while True:
            job_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
            folder = cls(home.absolute() / "jobs" / job_id)
            try:
                folder.path.mkdir(parents=True)
                break
            except FileExistsError:
                continue
        for part in (folder.checkpoints, folder.artifacts, folder.answers):
            part.mkdir()
        journal = folder.open_journal()
        journal.append("header", durable=True, job_id=job_id, host=host(), cwd=os.getcwd())
        journal.close()
        return folder

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """An existing job's folder; FileNotFoundError when there is no job in it."""
        folder = cls(Path(path).absolute())
        if not folder.journal.is_file():
            raise FileNotFoundError(f"no job in {folder.path}: it has no journal")
        for part in (folder.checkpoints, folder.artifacts, folder.answers):
            part.mkdir(exist_ok=True)
        return folder

    @property
    def job_id(self) -> str:
        return self.path.name

    @property
    def journal(self) -> Path:
        return self.path / "journal"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def artifacts(self) -> Path:
        """Files that wait to be sent."""
        return self.path / "artifacts"

    @property
    def answers(self) -> Path:
        return self.path / "answers"

    @property
    def sender_state(self) -> Path:
        return self.path / "sender.json"

    @property
    def worker_log(self) -> Path:
        return self.path / "worker.log"

    @property
    def sender_log(self) -> Path:
        return self.path / "sender.log"

    @property
    def heartbeat(self) -> Path:
        return self.path / "heartbeat"

    @property
    def stop_file(self) -> Path:
        return self.path / "stop"

    @property
    def lease_file(self) -> Path:
        return self.path / "lease"

    @property
    def sender_lock(self) -> Path:
        return self.path / "sender.lock"

    def open_journal(self) -> Journal:
        """The journal, for appending, within the bounds that the environment sets. Raises UsageError for one that is
        no number."""
        memory, disk = _megabytes(MEMORY_SETTING, MEMORY_MB), _megabytes(DISK_SETTING, DISK_MB)
        return Journal(self.journal, memory_bytes=memory, disk_bytes=disk)

    def lease(self, role: str = "process") -> Lease | None:
        """Own the job, or None when another living process does."""
        return Lease.take(self.lease_file, role)

    def owner(self) -> dict[str, Any] | None:
        """Who owns the job now (role, pid, host), or None."""
        return holder(self.lease_file)

    def sender(self) -> dict[str, Any] | None:
        """Which sender process delivers the job now (pid, host), or None."""
        return holder(self.sender_lock)

    def tell_stop(self, signal: str) -> None:
        """The signal that came first is the one that the attempt is said to have ended by. A full disk loses it."""
        with contextlib.suppress(OSError):
            self.stop_file.write_text(signal)

    def read_stop(self) -> str | None:
        """The signal by which the job was asked to end, if it was."""
        try:
            return self.stop_file.read_text() or None
        except OSError:
            return None

    def read_sender_state(self) -> dict[str, Any]:
        """What the sender says of itself: state, message, run_id, tracking_uri, pending, problems; may be empty."""
        value = atomic.read_json(self.sender_state)
        return value if isinstance(value, dict) else {}


def _megabytes(setting: str, otherwise: float) -> int:
    text = os.environ.get(setting) or str(otherwise)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise UsageError(f"{setting}={text}: a number of megabytes above 0 is needed")
    return int(value * MEGABYTE)


def jobs(home: Path) -> list[JobFolder]:
    """All jobs of the home, newest first."""
    folder = home / "jobs"
    if not folder.is_dir():
        return []
    names = sorted((path for path in folder.iterdir() if (path / "journal").is_file()), reverse=True)
    return [JobFolder(path.absolute()) for path in names]
