"""A job that writes its journal by hand, a tracking server that can be killed, and readers of the store."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow_resilience.spool import process
from mlflow_resilience.spool.folder import JobFolder
from tests.edges import postgres

ENVIRON = {
    **os.environ,
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_RESILIENCE_REQUEST_SECONDS": "3",
    "MLFLOW_RESILIENCE_HEARTBEAT_SECONDS": "1",
    "MLFLOW_RESILIENCE_SWEEP_SECONDS": "900",
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
}
for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
    ENVIRON.pop(name, None)


def until(check: Callable[[], Any], seconds: float = 60.0, what: str = "") -> Any:
    """The first true value of ``check``; fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or check}")
        time.sleep(0.05)
    return value


class Job:
    """A job whose owner is this process (or ``owner``), with a sender that can be killed."""

    def __init__(self, home: Path, uri: str | None, owned: bool = True, **job: Any) -> None:
        self.folder = JobFolder.create(home)
        self.journal = self.folder.open_journal()
        self.append = self.journal.append
        self.lease = self.folder.lease() if owned else None
        if owned:
            self.append("owner", **process.identity("process"))
        fields: dict[str, Any] = {
            "job_id": self.folder.job_id, "experiment": "test", "experiment_id": None, "run_id": None,
            "run_name": "a job", "parent_owns_end": False, "tracking_uri": uri, "params": {}, "tags": {},
            "started": time.time(), **job,
        }  # fmt: skip
        self.append("job", durable=True, **fields)
        self.sender: subprocess.Popen[bytes] | None = None

    def start_sender(self, cwd: Path | None = None, **environ: str) -> subprocess.Popen[bytes]:
        with self.folder.sender_log.open("ab") as log:
            self.sender = subprocess.Popen(
                [sys.executable, "-m", "mlflow_resilience.sender", str(self.folder.path)],
                env={**ENVIRON, **environ}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                cwd=cwd or self.folder.path.parents[2],
            )  # fmt: skip
        return self.sender

    def kill_sender(self) -> None:
        assert self.sender is not None
        os.killpg(self.sender.pid, signal.SIGKILL)
        self.sender.wait()

    def attempt(self, number: int, step: int = 0, **settings: Any) -> None:
        self.append("attempt", attempt=number, step=step, epoch=0, settings=settings or {"accumulation": 1}, reason="")

    def points(self, attempt: int, first: int, last: int, key: str = "batch/loss", shift: float = 0.0) -> None:
        ms = int(time.time() * 1000)
        self.append("points", attempt=attempt, points=[[key, s, 1 / s + shift, ms + s] for s in range(first, last + 1)])

    def checkpoint(self, attempt: int, step: int) -> None:
        fields = {"digest": f"d{step}", "path": "", "bytes": 10, "stall_ms": 1.0, "write_ms": 2.0}
        self.append("checkpoint", attempt=attempt, step=step, epoch=0, **fields)

    def fault(self, attempt: int, number: int, step: int, in_place: bool = False, **facts: Any) -> None:
        fault = {"exception": "RuntimeError", "message": "boom", "traceback": "Traceback\nRuntimeError: boom",
                 "phase": "step", "position": {"global_step": step, "epoch": 0, "step": step},
                 "chain": [{"exception": "OSError", "message": "the cause"}], **facts}  # fmt: skip
        self.append(
            "fault", attempt=attempt, number=number, in_place=in_place, fault=fault, failure_class="transient_io",
            failure_domain="infrastructure", hint="look at the disk", memory={"process_rss_mb": 100.0},
        )  # fmt: skip
        self.append(
            "decision", attempt=attempt, number=number, verdict="continue", resumption="roll_back",
            actions=["RollBack"], settings={}, delay=0.0, basis="first_of_class", text="go back to the last checkpoint",
        )  # fmt: skip

    def end_attempt(self, number: int, status: str, step: int) -> None:
        self.append("attempt_ended", attempt=number, status=status, step=step)

    def end(self, outcome: str = "clean", exit_code: int = 0) -> None:
        self.append("job_ended", durable=True, outcome=outcome, exit_code=exit_code, text="done")

    def release(self) -> None:
        self.journal.close()
        if self.lease is not None:
            self.lease.release()

    @property
    def state(self) -> dict[str, Any]:
        return self.folder.read_sender_state()

    def run_id(self) -> str:
        return str(until(lambda: self.state.get("run_id"), what="the job has a run"))

    def finish(self, seconds: float = 60.0) -> int:
        assert self.sender is not None
        code = self.sender.wait(seconds)
        self.release()
        return code

    def log(self) -> str:
        return self.folder.sender_log.read_text(errors="replace")

    def ask(self, seconds: float = 60.0, **fields: Any) -> dict[str, Any]:
        self.append("ask", durable=True, request="r1", question="resume", **fields)
        path = self.folder.answers / "r1.json"
        until(path.exists, seconds, "an answer")
        return dict(json.loads(path.read_text()))


OWNER = """
import os, sys, time
from mlflow_resilience.spool import process
from mlflow_resilience.spool.folder import JobFolder
folder = JobFolder.open(sys.argv[1])
lease = folder.lease("process")
journal = folder.open_journal()
journal.append("owner", durable=True, **process.identity("process"))
journal.append("attempt", attempt=1, step=0, epoch=0, settings={"accumulation": 1}, reason="")
for step in range(1, 31):
    journal.append("points", attempt=1, points=[["loss", step, 1 / step, step]])
journal.append("checkpoint", attempt=1, step=20, epoch=0, digest="d", path="", bytes=1, stall_ms=1.0, write_ms=1.0)
journal.flush()
print("ready", flush=True)
time.sleep(300)
"""


def start_owner(folder: JobFolder) -> subprocess.Popen[str]:
    """A process that owns the job, has trained 30 steps with a checkpoint at 20, and goes on until it is killed."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder.path)], env=ENVIRON, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline().strip() == "ready"
    return owner


#: Of SQLite a file, of PostgreSQL a URI.
Database = Path | str


class Server:
    """``mlflow server`` on the loopback, its artifacts in ``folder``, and its database unless ``store`` is given."""

    def __init__(self, folder: Path, store: str | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.database: Database = store or folder / "server.db"
        self._store = store or f"sqlite:///{self.database}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port),
                   "--workers", "1", "--backend-store-uri", self._store, "--serve-artifacts",
                   "--artifacts-destination", str(self.folder / "artifacts")]  # fmt: skip
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=ENVIRON, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                cwd=self.folder,
            )  # fmt: skip
        if wait:
            until(self.is_healthy, 120, "the server is up")

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()


def rows(database: Database, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Straight from the store's tables."""
    if isinstance(database, str):
        return postgres.rows(database, query, *values)
    # Writable: after a killed writer, the first reader has to roll its transaction back.
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=rw", uri=True, timeout=30)) as connection:
        return connection.execute(query, values).fetchall()


def steps(database: Database, run_id: str, key: str) -> list[int]:
    """All steps of a metric, doubled ones included."""
    query = "select step from metrics where run_uuid=? and key=? order by step"
    return [row[0] for row in rows(database, query, run_id, key)]


def tags(database: Database, run_id: str) -> dict[str, str]:
    return dict(rows(database, "select key, value from tags where run_uuid=?", run_id))


def params(database: Database, run_id: str) -> dict[str, str]:
    return dict(rows(database, "select key, value from params where run_uuid=?", run_id))


def status(database: Database, run_id: str) -> str:
    return str(rows(database, "select status from runs where run_uuid=?", run_id)[0][0])


def children(database: Database, run_id: str) -> dict[int, str]:
    """Attempt number -> run id."""
    found = rows(database, "select run_uuid from tags where key='mlflow.parentRunId' and value=?", run_id)
    return {int(tags(database, row[0])["resilience.attempt"]): row[0] for row in found}


def artifacts(folder: Path) -> set[str]:
    """The files below the artifact folder of the only run that has any there."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
