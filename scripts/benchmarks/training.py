"""The training that the cost of saving is measured on: square layers, and what times its steps."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.core.policy import Policy
from mlflow_resilience.fitting import Checkpoints, run_fit
from mlflow_resilience.job import Job
from mlflow_resilience.spool.folder import JobFolder

EVERY = 10  # steps between two saves
WIDTHS = {"1 M": 480, "25 M": 2480}  # of four square layers: about that many parameters


class Times(keras.callbacks.Callback):
    """When each step began; after every tenth one something is saved, where there is something to save with."""

    def __init__(self, save: Callable[[int], object] | None = None) -> None:
        super().__init__()
        self._save = save
        self.begun: list[float] = []

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.begun.append(time.perf_counter())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._save is not None and len(self.begun) % EVERY == 0:
            self._save(len(self.begun))


def make(width: int) -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((width,)), *(keras.layers.Dense(width) for _ in range(4))])
    model.compile(keras.optimizers.Adam(1e-4), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def data(width: int, batch: int, steps: int) -> tf.data.Dataset:
    x = np.random.default_rng(0).normal(size=(batch, width)).astype("float32")
    return tf.data.Dataset.from_tensors((x, x)).cache().repeat(steps)


def plainly(model: keras.Model, call: dict[str, Any], times: Times, *more: Any) -> None:
    model.fit(**call, callbacks=[times, *more])


def ours(model: keras.Model, call: dict[str, Any], times: Times, local: str = f"{EVERY}steps") -> None:
    """Our `fit` in a job that is sent nowhere."""
    with tempfile.TemporaryDirectory() as home:
        folder = JobFolder.create(Path(home))
        job = Job(folder=folder, journal=folder.open_journal(), supervised=False, entry={"started": time.time()})
        checkpoints = Checkpoints(local=local, log_models=False)
        run_fit(job, model, {**call, "callbacks": [times]}, policy=Policy(), checkpoints=checkpoints)
        job.journal.close()


def batch_for(width: int, seconds: float) -> int:
    """The batch size with which a step takes about ``seconds``."""
    batch, model = 32, make(width)
    while True:
        times = Times()
        plainly(model, {"x": data(width, batch, 12), "verbose": 0}, times)
        step = statistics.median(np.diff(times.begun[2:]))
        if step > 0.8 * seconds or batch >= 16384:
            return batch
        batch = min(16384, max(batch + 1, int(batch * min(4, seconds / step))))
