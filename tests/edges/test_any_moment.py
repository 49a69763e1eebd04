"""A job that is struck in any phase ends as it would have ended undisturbed, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_resilience.spool.folder import JobFolder, jobs
from mlflow_resilience.spool.process import is_alive
from mlflow_resilience.spool.record import JobRecord
from tests.edges.main_job import environ

RECIPE = Path(__file__).parent / "slow_recipe.py"
PHASES = ("start", "trace", "data", "step", "validation", "epoch_end")
HOW = ("kill", "stop", "term", "everything")
SEED = int(os.environ.get("MATRIX_SEED", "20261130"))
CELLS = [(phase, how) for phase in PHASES for how in HOW]
SAMPLE = set(random.Random(SEED).sample(CELLS, 2))

pytestmark = pytest.mark.timeout(280)


class Running:
    """The job in ``folder``, started and looked at from outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "mlflow_resilience.cli", "train", str(RECIPE), "--epochs", "3"]
        self.output = (folder / "output.txt").open("ab")
        self.process = subprocess.Popen(
            [*command, "--hang-seconds", "8"],
            cwd=folder,
            env=environ(),
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )

    @property
    def job(self) -> JobFolder | None:
        found = jobs(self.folder / ".mlflow_resilience")
        return found[0] if found else None

    def in_phase(self, phase: str, epoch: int) -> int:
        """The worker's pid, once it says that it is in this phase of that epoch."""
        for beat in self._beats():
            if beat["phase"] == phase and (beat["epoch"] >= epoch or phase in ("start", "trace")):
                return int(beat["pid"])
        raise AssertionError(f"it never was in phase {phase}:\n{(self.folder / 'output.txt').read_text()}")

    def _beats(self) -> Iterator[dict[str, object]]:
        while self.process.poll() is None:
            job = self.job
            if job is not None and job.heartbeat.exists():
                with contextlib.suppress(ValueError):
                    yield json.loads(job.heartbeat.read_bytes())
            time.sleep(0.01)

    def end(self) -> int:
        code = self.process.wait(200)
        self.output.close()
        return code


def final_digest(folder: Path) -> str:
    record = JobRecord.read(jobs(folder / ".mlflow_resilience")[0].journal)
    return next(str(model["digest"]) for model in reversed(record.models) if model["name"] == "model")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("undisturbed")
    running = Running(folder)
    assert running.end() == 0, (folder / "output.txt").read_text()
    return final_digest(folder)


@pytest.mark.parametrize(
    ("phase", "how"),
    [pytest.param(*cell, marks=[] if cell in SAMPLE else [pytest.mark.full]) for cell in CELLS],
)
def test_struck_in_any_phase_the_weights_are_those_of_undisturbed(
    phase: str, how: str, tmp_path: Path, undisturbed: str
) -> None:
    running = Running(tmp_path)
    worker = running.in_phase(phase, epoch=1)
    if how == "kill":
        os.killpg(os.getpgid(worker), signal.SIGKILL)
    elif how == "stop":
        os.kill(worker, signal.SIGSTOP)
    elif how == "term":
        running.process.send_signal(signal.SIGTERM)
    else:
        running.process.kill()
        os.killpg(os.getpgid(worker), signal.SIGKILL)
    code = running.end()
    if how in ("term", "everything"):
        assert code == (75 if how == "term" else -signal.SIGKILL)
        again = Running(tmp_path)
        assert again.end() == 0, (tmp_path / "output.txt").read_text()
    else:
        assert code == 0, (tmp_path / "output.txt").read_text()
    assert final_digest(tmp_path) == undisturbed
    assert not is_alive(worker)
