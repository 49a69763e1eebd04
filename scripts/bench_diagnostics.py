"""What diagnostics cost a training: plain `fit` with a reading every step, every 50 steps, and none, in one process:

    python scripts/bench_diagnostics.py [--quick]

The result is kept in docs/benchmarks/diagnostics.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import threading
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience import telemetry
from mlflow_resilience.diagnostics import Diagnostics

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
WIDTH, LAYERS = 480, 4  # about a million weights
TARGET = {1: 1.03, 50: 1.005}  # the ratio that may be reached, by steps between two readings
TURN = {1: 10, 50: 50}  # steps of a turn: each holds one reading at least


def make() -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(LAYERS)]
    model = keras.Sequential([keras.layers.Input((WIDTH,)), *layers])
    model.compile(keras.optimizers.Adam(1e-4), "mse")
    return model


def data(batch: int, steps: int) -> tf.data.Dataset:
    x = np.random.default_rng(0).normal(size=(batch, WIDTH)).astype("float32")
    return tf.data.Dataset.from_tensors((x, x)).cache().repeat(steps)


class Turns:
    """Two trainings at once, of which only one runs: what else the machine does meets both alike."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._whose, self._left = 0, set[int]()

    def wait(self, way: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._whose == way or 1 - way in self._left)

    def give(self, way: int, *, for_good: bool = False) -> None:
        with self._changed:
            self._whose = 1 - way
            if for_good:
                self._left.add(way)
            self._changed.notify_all()


class InTurns(keras.callbacks.Callback):
    """Seconds of each turn of one training."""

    def __init__(self, way: int, turns: Turns, length: int) -> None:
        super().__init__()
        self._way, self._turns, self._length = way, turns, length
        self._steps, self._since = 0, None
        self.seconds: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._steps += 1
        if self._steps % self._length:
            return
        if self._since is not None:
            self.seconds.append(time.perf_counter() - self._since)
        self._turns.give(self._way)
        self._turns.wait(self._way)
        self._since = time.perf_counter()


def batch_for(seconds: float) -> int:
    """The batch size with which a step takes about so long."""
    batch, model = 256, make()
    while True:
        model.fit(data(batch, 3), verbose=0)
        started = time.perf_counter()
        model.fit(data(batch, 10), verbose=0)
        step = (time.perf_counter() - started) / 10
        if step > 0.8 * seconds or batch >= 65536:
            return batch
        batch = min(65536, max(batch + 1, int(batch * min(4, seconds / step))))


def pair(batch: int, every: int, turns: int) -> tuple[list[float], list[float]]:
    """Seconds of the turns without diagnostics and with, of two trainings that take turns."""
    order, found = Turns(), {}
    length = TURN[every]

    def train(way: int) -> None:
        order.wait(way)
        watch = InTurns(way, order, length)
        # First in the list: the end of a turn is before the reading of the step that begins.
        callbacks = [watch, Diagnostics(every, log=False)] if way else [watch]
        make().fit(data(batch, (turns + 3) * length), verbose=0, callbacks=callbacks)
        order.give(way, for_good=True)
        found[way] = watch.seconds[1:]  # in the first one things are traced and warm up

    other = threading.Thread(target=train, args=(0,))
    other.start()
    train(1)
    other.join()
    return found[0], found[1]


def measure(every: int, batch: int, pairs: int, turns: int) -> dict[str, Any]:
    ratios, bare = [], []
    for number in range(pairs):
        plain, watched = pair(batch, every, turns)
        around = zip(watched, itertools.pairwise(plain), strict=False)
        ratios.append(statistics.median(ours / statistics.mean(each) for ours, each in around))
        bare += plain
        print(f"a reading every {every}: pair {number + 1} of {pairs}, {ratios[-1]:.4f}", flush=True)
    low, high = _interval(ratios)
    ratio = statistics.median(ratios)
    return {
        "every": every,
        "step_ms": round(1000 * statistics.median(bare) / TURN[every], 1),
        "ratio": round(ratio, 4),
        "interval": [round(low, 4), round(high, 4)],
        "ratios": [round(each, 4) for each in ratios],
        "target": TARGET[every],
        "reached": ratio <= TARGET[every],
    }


def _interval(values: list[float]) -> tuple[float, float]:
    """95 % of the medians of samples drawn from the values."""
    drawn = random.Random(0)
    medians = sorted(statistics.median(drawn.choices(values, k=len(values))) for _ in range(4000))
    return medians[100], medians[-101]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one short pair each, to see that it works; keeps nothing")
    quick = parser.parse_args().quick
    facts = telemetry.environment()
    machine = {key: facts[key] for key in ("cpu", "usable_cores", "python", "versions", "gpus") if key in facts}
    told: dict[str, Any] = {"format": 1, "machine": {**machine, "load": round(os.getloadavg()[0], 2)}}
    batch = batch_for(0.02 if quick else 0.1)
    told["batch"], told["parameters"] = batch, make().count_params()
    told["results"] = [measure(1, batch, 1 if quick else 6, 5 if quick else 12),
                       measure(50, batch, 1 if quick else 6, 3)]  # fmt: skip
    print(json.dumps(told, indent=1))
    if not quick:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "diagnostics.json").write_text(json.dumps(told, indent=1) + "\n")
    return 0 if all(result["reached"] for result in told["results"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
