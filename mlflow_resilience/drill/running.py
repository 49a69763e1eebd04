"""A cell's job, run as a user would: the same command again for as long as that is what a user would do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlflow_resilience.drill.processes import end_all
from mlflow_resilience.drill.striker import FOLDER, RECIPE
from mlflow_resilience.supervisor.kernel import end_with_parent

TRAIN = (sys.executable, "-m", "mlflow_resilience.cli", "train")
PREEMPTED, KILLED = 75, -signal.SIGKILL
_KEPT = ("MLFLOW_DISABLE_TELEMETRY", "MLFLOW_RESILIENCE_HEARTBEAT_SECONDS")


@dataclass(frozen=True, kw_only=True)
class Command:
    """What a job is started with. ``seconds`` is how long all its starts may take together."""

    options: Sequence[str]
    folder: Path
    tracking_uri: str
    recipe: str = RECIPE
    program: Sequence[str] = TRAIN
    environ: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 600.0
    starts: int = 8

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"

    @property
    def sign(self) -> str:
        """What is in the environment of each of its processes, and of no others."""
        return sign_of(self.folder) + "\0"

    @property
    def line(self) -> list[str]:
        return [*self.program, self.recipe, *self.options]

    @property
    def whole_environ(self) -> dict[str, str]:
        """The caller's environment without its jobs, runs and stores: a cell has its own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_") or name in _KEPT}
        own = {
            "MLFLOW_TRACKING_URI": self.tracking_uri,
            "MLFLOW_RESILIENCE_HOME": str(self.home),
            "MLFLOW_RESILIENCE_SWEEP_SECONDS": "1",
            FOLDER: str(self.folder),
        }
        return {**kept, **self.environ, **own}


def sign_of(folder: Path) -> str:
    """What the environment of the processes of all cells below a folder has, or of the one in it."""
    return f"{FOLDER}={folder}"


@dataclass(frozen=True)
class Ran:
    """The exit code of each start; ``late`` when the last one had to be ended."""

    codes: tuple[int, ...]
    seconds: float
    late: bool = False


class Interrupted(Exception):
    """The drill itself was asked to end."""


def run(command: Command, asked: threading.Event) -> Ran:
    """Run the job to its end. Raises Interrupted, with no process left, once ``asked`` is set."""
    command.folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    codes: list[int] = []
    while not codes or (codes[-1] in (PREEMPTED, KILLED) and len(codes) < command.starts):
        code = _start(command, begun + command.seconds, asked)
        if code is None:
            return Ran(tuple(codes), time.monotonic() - begun, late=True)
        codes.append(code)
    return Ran(tuple(codes), time.monotonic() - begun)


def _start(command: Command, deadline: float, asked: threading.Event) -> int | None:
    """One start: its exit code; None when it came to no end in time."""
    with command.output.open("ab") as output:
        process = subprocess.Popen(
            command.line,
            env=command.whole_environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        while time.monotonic() < deadline and not asked.is_set():
            try:
                return process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        end_all(command.sign)
        process.wait()
    if asked.is_set():
        raise Interrupted
    return None
