"""A job with engine=ray in a folder of its own: started, struck, and asked what became of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mlflow_resilience.spool.journal import read
from mlflow_resilience.supervisor.hang import parse_beat, read_beat

ROOT = Path(__file__).parents[2]
PATIENCE = 280.0  # of a machine with two busy processors, on which Ray alone takes a minute to start

#: No dropout and no batch normalisation: what several workers make of it differs from one by rounding alone.
RECIPE = """
import keras
import tensorflow as tf
from sklearn.datasets import load_digits

def load_data(params):
    x, y = load_digits(return_X_y=True)
    data = tf.data.Dataset.from_tensor_slices(((x / 16).astype("float32"), y))
    train = data.take(1500).shuffle(1500, seed=params["seed"]).batch(params["batch_size"])
    return train, data.skip(1500).batch(100)

def build_model(params):
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32, "tanh"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(params["learning_rate"]), loss, metrics=["accuracy"])
    return model
"""


class RayJob:
    """``mlflow-resilience train`` of the small recipe, by two workers."""

    def __init__(self, folder: Path, *arguments: str, engine: str = "ray", **environ: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "recipe.py").write_text(RECIPE)
        workers = ["--num-workers", "2"] if engine == "ray" else []
        command = [sys.executable, "-m", "mlflow_resilience.cli", "train", "recipe.py", "--engine", engine, *workers]
        told = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RAY_"))}
        told |= {"MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1", **environ}
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [*command, "--epochs", "2", "--batch-size", "50", *arguments],
                cwd=folder, env=told, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    @property
    def job(self) -> Path | None:
        found = sorted(self.folder.glob(".mlflow_resilience/jobs/*/journal"))
        return found[-1].parent if found else None

    def entries(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry, _ in read(self.job / "journal") if entry["kind"] == kind] if self.job else []

    def rank(self, rank: int) -> int:
        """The process of a rank of the newest group."""
        assert self.job is not None
        newest = max(self.job.glob(f"ranks/*/rank-{rank}-start.json"))
        return int(json.loads(newest.read_text())["pid"])

    def step(self) -> int:
        beat = parse_beat(read_beat(self.job / "heartbeat")) if self.job else None
        return 0 if beat is None else beat.step

    def strike(self, rank: int, number: int, *, step: int) -> int:
        """Send a signal to a rank once training is at ``step``: the step it was seen at."""
        self.await_(lambda: self.step() >= step)
        reached = self.step()
        os.kill(self.rank(rank), number)
        return reached

    def end(self) -> int:
        """Its exit code."""
        return self.process.wait(timeout=PATIENCE)

    def digest(self) -> str:
        """Of the state that the job's last checkpoint holds."""
        return str(self.entries("checkpoint")[-1]["digest"])

    def await_(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert self.process.poll() is None, (self.folder / "output").read_text()[-3000:]
            assert time.monotonic() < deadline, (self.folder / "output").read_text()[-3000:]
            time.sleep(0.01)


@contextlib.contextmanager
def running(folder: Path, *arguments: str, **settings: Any) -> Iterator[RayJob]:
    """A job, of which nothing is left afterwards."""
    job = RayJob(folder, *arguments, **settings)
    try:
        yield job
    finally:
        if job.process.poll() is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()
