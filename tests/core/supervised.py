"""A supervisor over small fake workers, in a process of its own; and what the tests ask of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mlflow_resilience.core.policy import Backoff, Policy
from mlflow_resilience.recoveries import BUILT_IN
from mlflow_resilience.spool.folder import JobFolder, jobs
from mlflow_resilience.spool.journal import read
from mlflow_resilience.supervisor import Limits, Plan, supervise
from mlflow_resilience.supervisor.parents import nearest

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0

T = TypeVar("T")

WORKER = """
import json, os, signal, subprocess, sys, time
from mlflow_resilience.spool.folder import JobFolder
folder = JobFolder.open(os.environ["MLFLOW_RESILIENCE_JOB"])
journal = folder.open_journal()
attempt = int(os.environ["MLFLOW_RESILIENCE_ATTEMPT"])

def begin(step=0):
    journal.append("attempt", durable=True, attempt=attempt, step=step, epoch=0, settings={}, reason="fake")

def reach(step):
    journal.append("points", durable=True, attempt=attempt, points=[["loss", step, 1.0, 0]])

def checkpoint(step):
    journal.append("checkpoint", durable=True, attempt=attempt, step=step, epoch=0, path="", digest="", bytes=0)

def end(status="FINISHED", step=0):
    journal.append("attempt_ended", durable=True, attempt=attempt, status=status, step=step)

def beat(step, phase="step"):
    line = json.dumps({"pid": os.getpid(), "phase": phase, "step": step, "time": time.time()})
    with open(folder.heartbeat, "r+b" if folder.heartbeat.exists() else "w+b", buffering=0) as file:
        file.write(line.encode().ljust(256))

def decide(verdict, **fields):
    journal.append("fault", attempt=attempt, number=1, fault={"exception": "Fake"}, failure_class="device_oom",
                   failure_domain="workload", hint="", in_place=False, memory={})
    journal.append("decision", durable=True, attempt=attempt, number=1, verdict=verdict, settings={}, actions=[],
                   failure_class="device_oom", rung=0, opens_attempt=True, text="as the worker said", **fields)

def park(name="parked"):
    (folder.path / name).touch()
    while True:
        time.sleep(60)
"""

SENDER = """
import os, sys, time
from mlflow_resilience.spool.codec import Reader
from pathlib import Path
reader, parent = Reader(Path(sys.argv[1], "journal")), os.getppid()
while not any(entry["kind"] == "job_ended" for entry, _ in reader.poll()) and os.getppid() == parent != 1:
    time.sleep(0.05)
"""


class FileView:
    """Writes down what it is shown."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def entry(self, entry: Any) -> None:
        pass

    def beat(self, phase: str, step: int) -> None:
        pass

    def output(self, text: str) -> None:
        self._file.write(text[:1000])

    def say(self, text: str) -> None:
        self._file.write(f"SAID {text}\n")


class Supervised:
    """A job under supervision, as the test sees it."""

    def __init__(self, process: subprocess.Popen[str], home: Path) -> None:
        self.process, self.home = process, home

    @property
    def folder(self) -> JobFolder:
        """The job's folder, as soon as there is one."""
        return eventually(lambda: next(iter(jobs(self.home)), None))

    def entries(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry, _ in read(self.folder.journal) if entry["kind"] == kind]

    def marked(self, name: str) -> Path:
        """Wait until the worker has left this mark."""
        path = self.folder.path / name
        return eventually(lambda: path if path.exists() else None)

    def end(self) -> dict[str, Any]:
        """Wait for the end: the result that the supervisor printed."""
        output, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, output
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        return result

    def shown(self) -> str:
        return (self.home / "shown").read_text()


def eventually(look: Callable[[], T | None], patience: float = PATIENCE) -> T:
    deadline = time.monotonic() + patience
    while (found := look()) is None:
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


@contextmanager
def supervised(home: Path, worker: str, **options: Any) -> Iterator[Supervised]:
    """Run a supervisor over a worker with this body."""
    home.mkdir(exist_ok=True)
    plan = {"home": str(home), "command": [sys.executable, "-c", WORKER + worker], **options}
    command = [*options.pop("prefix", []), sys.executable, __file__, json.dumps(plan)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=True)
    try:
        yield Supervised(process, home)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def main(options: dict[str, Any]) -> None:
    home = Path(options["home"])
    plan = Plan(
        command=options["command"],
        home=home,
        recoveries=BUILT_IN,
        policy=Policy(
            max_attempts=options.get("max_attempts", 10),
            backoff=Backoff(first_seconds=0.0),
            max_lost_time=options.get("max_lost_time"),
            notify=options.get("notify"),
        ),
        limits=Limits(**options.get("limits", {})),
        grace_seconds=options.get("grace", 30.0),
        sender_command=[sys.executable, "-c", options.get("sender", SENDER)],
        sender_wait_seconds=options.get("sender_wait", 10.0),
        require_tracking=options.get("require_tracking", False),
        tracking_wait_seconds=1.0,
        parents=nearest() if options.get("with_parent") else (),
        spare_command=options.get("spare_command", ()),
        opens_attempts=options.get("opens_attempts", False),
    )
    result = supervise(plan, FileView(home / "shown"))
    from mlflow_resilience.supervisor.kernel import children

    left = [pid for pid in children(os.getpid())]
    print(json.dumps({**vars(result), "folder": str(result.folder.path), "left": left}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
