"""What diagnostics cost: steps of one model, in turn by its plain train function and by one with diagnostics.

Both work on the same variables in the same process: what else the machine does, and where memory lies, meets both
alike. What is read goes into a journal, as in a job.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from intervals import interval

from mlflow_resilience.diagnostics import Diagnostics
from mlflow_resilience.diagnostics.outlet import JournalOutlet
from mlflow_resilience.spool.journal import Journal

WIDTH, LAYERS = 480, 4  # about a million weights
TARGET = {1: 1.03, 50: 1.005}  # the ratio that may be reached, by steps between two readings
BLOCK = {1: 10, 50: 50}  # steps each way that are compared: at least one reading in each


def make() -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(LAYERS)]
    model = keras.Sequential([keras.layers.Input((WIDTH,)), *layers])
    model.compile(keras.optimizers.Adam(1e-4), "mse")
    return model


def data(batch: int) -> Any:
    x = np.random.default_rng(0).normal(size=(batch, WIDTH)).astype("float32")
    return iter(tf.data.Dataset.from_tensors((x, x)).cache().repeat())


class Plain:
    """Steps of a model by its train function, as `fit` takes them."""

    def __init__(self, model: keras.Model, batches: Any) -> None:
        model.make_train_function(force=True)
        self._function, self._batches = model.train_function, batches

    def step(self) -> float:
        """Seconds of one step."""
        started = time.perf_counter()
        self.compute()
        return time.perf_counter() - started

    def compute(self) -> dict[str, float]:
        return {name: float(value) for name, value in self._function(self._batches).items()}


class Watched(Plain):
    """The same with diagnostics, whose reading is part of the step."""

    def __init__(self, model: keras.Model, batches: Any, every: int, journal: Journal, folder: Path) -> None:
        self._diagnostics = Diagnostics(every, log=False)
        self._diagnostics.outlet = JournalOutlet(journal, lambda: 1, folder, "diagnostics", 0)
        self._diagnostics.set_model(model)
        self._diagnostics.on_train_begin()
        self._diagnostics.on_epoch_begin(0)
        self._diagnostics.on_train_batch_begin(0)
        super().__init__(model, batches)
        self._every, self._done = every, 0
        self.readings: list[float] = []

    def let_go(self) -> None:
        """What is traced from now on is not watched."""
        assert self._diagnostics._gauge is not None
        self._diagnostics._gauge.remove()

    def step(self) -> float:
        started = time.perf_counter()
        if self._done:
            self._diagnostics.on_train_batch_begin(self._done)
        begun = time.perf_counter()
        logs = self.compute()
        computed = time.perf_counter()
        self._diagnostics.on_train_batch_end(self._done, logs)
        ended = time.perf_counter()
        self._done += 1
        if self._done % self._every == 0:
            self.readings.append(begun - started + ended - computed)
        return ended - started


def batch_for(seconds: float) -> int:
    """The batch size with which a step takes about so long."""
    batch, model = 256, make()
    while True:
        plain = Plain(model, data(batch))
        step = statistics.median([plain.step() for _ in range(12)][2:])
        if step > 0.5 * seconds or batch >= 65536:
            return min(65536, int(batch * seconds / step))
        batch = min(65536, max(batch + 1, int(batch * min(4, seconds / step))))


def ratios(every: int, batch: int, blocks: int, *, watched_first: bool) -> tuple[list[float], list[float], list[float]]:
    """Of each block of one model: the seconds of its watched steps against those of its plain ones. Besides, the
    seconds of plain steps, and of each reading's calls. Which of the two functions is made first makes a difference of
    its own, of up to 1 %: models take turns in that."""
    with tempfile.TemporaryDirectory() as place, contextlib.closing(Journal(Path(place, "journal"))) as journal:
        model, batches = make(), data(batch)
        if watched_first:
            watched = Watched(model, batches, every, journal, Path(place))
            watched.step()
            watched.let_go()
            plain = Plain(model, batches)
        else:
            plain = Plain(model, batches)
            plain.step()  # traced before the optimiser is watched
            watched = Watched(model, batches, every, journal, Path(place))
        for way in (watched, plain, watched, plain):  # traced, and warm
            way.step()
        found, bare = [], []
        for _ in range(blocks):
            pairs = [_in_turn(plain, watched, number) for number in range(BLOCK[every])]
            found.append(sum(ours for _, ours in pairs) / sum(each for each, _ in pairs))
            bare += [each for each, _ in pairs]
    return found, bare, watched.readings[1:]  # in the first one its functions are traced


def _in_turn(plain: Plain, watched: Watched, number: int) -> tuple[float, float]:
    """Seconds of a step each; neither is always the first."""
    if number % 2:
        ours = watched.step()
        return plain.step(), ours
    return plain.step(), watched.step()


def _measured(every: int, batch: int, models: int, blocks: int) -> dict[str, Any]:
    found, bare, readings = [], [], []
    for number in range(models):
        more, steps, calls = ratios(every, batch, blocks, watched_first=bool(number % 2))
        found, bare, readings = found + more, bare + steps, readings + calls
        print(f"a reading every {every}: model {number + 1} of {models}, {statistics.median(more):.4f}", flush=True)
    low, high = interval(found)
    ratio = statistics.median(found)
    return {
        "every": every,
        "step_ms": round(1000 * statistics.median(bare), 1),
        "reading_ms": round(1000 * statistics.median(readings), 2),
        "ratio": round(ratio, 4),
        "interval": [round(low, 4), round(high, 4)],
        "ratios": [round(each, 4) for each in found],
        "target": TARGET[every],
        "reached": ratio <= TARGET[every],
        "interval_reached": high <= TARGET[every],
    }


def measure(quick: bool) -> dict[str, Any]:
    batch = batch_for(0.02 if quick else 0.1)
    models = 1 if quick else 10
    results = [_measured(1, batch, models, 1 if quick else 6), _measured(50, batch, models, 1 if quick else 3)]
    return {"batch": batch, "parameters": make().count_params(), "results": results}


def page(told: dict[str, Any]) -> list[str]:
    lines = [
        "## What diagnostics cost",
        "",
        f"Steps of a model of {told['parameters']:,} weights, in turn by its plain train function and by one with",
        "`Diagnostics` that tell a job's journal; the ratio is that of blocks with one reading at least.",
        "*A reading, ms*: the time of the callback's calls in a step that is looked at.",
        "",
        "| a reading | step, ms | a reading, ms | ratio | 95 % interval | goal |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in told["results"]:
        low, high = each["interval"]
        name = "every step" if each["every"] == 1 else f"every {each['every']} steps"
        figures = f"{each['step_ms']} | {each['reading_ms']} | {each['ratio']} | {low} to {high} | {each['target']}"
        lines.append(f"| {name} | {figures} |")
    return [*lines, ""]
