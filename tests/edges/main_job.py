"""Runs the main job as a user would, and reads what MLflow then has."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """A job that has ended: what it said, and where."""

    code: int
    output: str
    folder: Path

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(f"sqlite:///{self.folder / 'mlflow.db'}")

    def jobs(self) -> list[Run]:
        """The job runs, the newest first."""
        return [run for run in self._runs() if "mlflow.parentRunId" not in run.data.tags]

    def attempts(self, job: Run) -> list[Run]:
        """The attempts of a job run, in order."""
        own = [run for run in self._runs() if run.data.tags.get("mlflow.parentRunId") == job.info.run_id]
        return sorted(own, key=lambda run: int(run.data.tags["resilience.attempt"]))

    def artifacts(self, run: Run, below: str = "resilience") -> set[str]:
        found: set[str] = set()
        for each in self.client.list_artifacts(run.info.run_id, below):
            found |= self.artifacts(run, each.path) if each.is_dir else {each.path}
        return found

    def _runs(self) -> list[Run]:
        return list(self.client.search_runs(["0"], order_by=["attributes.start_time DESC"], max_results=200))


def environ(**more: str) -> dict[str, str]:
    """An environment without anything of MLflow's or ours, but for what is given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**kept, "PATH": path, "PYTHONPATH": paths, "MLFLOW_DISABLE_TELEMETRY": "true", **more}


def run(folder: Path, *command: str, timeout: float = 240, **more: str) -> Ended:
    """Run a command in ``folder`` to its end."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    return Ended(done.returncode, done.stdout, folder)


def train(folder: Path, *options: str, **more: Any) -> Ended:
    """``mlflow-resilience train`` with these options."""
    return run(folder, sys.executable, "-m", "mlflow_resilience.cli", "train", *options, **more)
