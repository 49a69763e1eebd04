"""A job that is struck at a chosen place, and what is left of it afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mlflow_resilience.drill.processes import eventually, left_running
from mlflow_resilience.spool.folder import JobFolder, jobs
from mlflow_resilience.spool.journal import read
from mlflow_resilience.spool.record import JobRecord
from tests.edges.main_job import environ

__all__ = ["Running", "eventually", "final_digest", "left_running", "statuses"]

RECIPE, BLOCKING_RECIPE = (Path(__file__).parent / name for name in ("slow_recipe.py", "blocking_recipe.py"))
HANG_SECONDS, START_SECONDS = 8, 40  # of silence; a start on a busy machine takes half of the latter
_BEATS = ("start", "trace", "data", "step", "validation", "epoch_end")


class Running:
    """The job in ``folder``, started and looked at from outside."""

    def __init__(
        self, folder: Path, *options: str, recipe: Path = RECIPE, command: Sequence[str] | None = None
    ) -> None:
        self.folder = folder
        seconds = ("--hang-seconds", str(HANG_SECONDS), "--delivery-seconds", "120")
        train = [sys.executable, "-m", "mlflow_resilience.cli", "train", str(recipe), "--epochs", "3", *seconds]
        self.output = (folder / "output.txt").open("ab")
        self.process = subprocess.Popen(
            command or [*train, *options],
            cwd=folder,
            env=environ(
                MLFLOW_RESILIENCE_SWEEP_SECONDS="1",
                MLFLOW_RESILIENCE_HOME=str(folder / ".mlflow_resilience"),
                MLFLOW_TRACKING_URI=f"sqlite:///{folder / 'mlflow.db'}",
            ),
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )

    @property
    def job(self) -> JobFolder | None:
        found = jobs(self.folder / ".mlflow_resilience")
        return found[0] if found else None

    def at(self, place: str) -> int:
        """The pid of the worker, once it is at this place; never in the first epoch, where there is another one."""
        if place == "restart":
            first = self.at("step")
            os.killpg(os.getpgid(first), signal.SIGKILL)
            return self._until(lambda beat: beat["pid"] != first)
        if place in _BEATS:
            return self._until(lambda beat: beat["phase"] == place and (beat["epoch"] >= 1 or place in _BEATS[:2]))
        worker = self._until(lambda beat: beat["epoch"] >= 1)
        return self._until(lambda beat: self._is_saving(place), fallback=worker)

    def entries(self, kind: str) -> list[dict[str, Any]]:
        """Those in the journal so far."""
        return [] if self.job is None else [entry for entry, _ in read(self.job.journal) if entry["kind"] == kind]

    def _is_saving(self, place: str) -> bool:
        job = self.job
        assert job is not None
        if place == "writing":
            return any(job.checkpoints.glob(".writing-*"))
        told = {entry["local_id"] for entry, _ in read(job.journal) if entry["kind"] == "model"}
        return any(path.name not in told for path in (job.path / "models").glob("*"))

    def _until(self, condition: Callable[[dict[str, Any]], bool], fallback: int = 0) -> int:
        for beat in self._beats():
            if condition(beat):
                return int(beat["pid"])
        raise AssertionError(f"it was never there ({fallback}):\n{(self.folder / 'output.txt').read_text()}")

    def _beats(self) -> Iterator[dict[str, Any]]:
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


def statuses(folder: Path) -> list[tuple[str, str]]:
    """(outcome, status) of every run, job runs and attempts, in the order in which they began."""
    query = """
        select coalesce(value, ''), status from runs
        left join tags on tags.run_uuid = runs.run_uuid and key = 'resilience.outcome' order by start_time
    """
    with contextlib.closing(sqlite3.connect(f"file:{folder / 'mlflow.db'}?mode=ro", uri=True)) as store:
        return [(str(outcome), str(status)) for outcome, status in store.execute(query)]
