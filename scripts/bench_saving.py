"""What a checkpoint costs the training, ours and others', in one process; started by scripts/bench."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import bench_tracking
import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience import telemetry
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.fitting import Checkpoints, run_fit
from mlflow_resilience.job import Job
from mlflow_resilience.spool.folder import JobFolder

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "benchmarks"
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


# -- what one save costs -----------------------------------------------------------------------------------------------


def ways(model: keras.Model, folder: Path) -> dict[str, Callable[[Times, dict[str, Any]], None]]:
    """Each way of saving: a call trains the model with a save after every tenth step."""

    def copy(_: int) -> list[Any]:
        variables = [*model.variables, *model.optimizer.variables]
        return [np.array(variable.value) for variable in variables]

    def with_save(save: Callable[[int], object] | None) -> Callable[[Times, dict[str, Any]], None]:
        def train(times: Times, call: dict[str, Any]) -> None:
            times._save = save
            plainly(model, call, times)

        return train

    def backup(times: Times, call: dict[str, Any]) -> None:
        plainly(model, call, times, keras.callbacks.BackupAndRestore(folder / "backup", save_freq=EVERY))
        model._initial_epoch = 0

    return {
        "nothing": with_save(None),
        "copy in memory": with_save(copy),
        "ours": lambda times, call: ours(model, call, times),
        "save_weights": with_save(lambda _: model.save_weights(folder / "model.weights.h5")),
        ".keras": with_save(lambda _: model.save(folder / "model.keras")),
        "BackupAndRestore": backup,
    }


def stalls(begun: list[float]) -> list[float]:
    """Seconds by which a save and the two steps after it took longer than three of the steps right before it."""
    steps = np.diff(begun)
    saves = range(EVERY - 1, len(steps) - 2, EVERY)
    return [float(steps[at : at + 3].sum() - 3 * np.median(steps[at - 5 : at])) for at in saves]


def measure_saves(rounds: int, steps: int) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, width in WIDTHS.items():
        model, batch = make(width), batch_for(width, 0.1)
        found: dict[str, dict[str, list[float]]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(rounds):
                for way, train in ways(model, Path(folder)).items():
                    times = Times()
                    train(times, {"x": data(width, batch, steps), "verbose": 0})
                    begun = times.begun[EVERY:]  # the first steps trace and warm up
                    each = found.setdefault(way, {"stall": [], "step": []})
                    each["stall"] += stalls(begun)
                    each["step"].append(_typical(begun))
        parameters = model.count_params()
        told[name] = {
            "parameters": parameters,
            "state_mb": round(parameters * 12 / 1e6, 1),
            "batch": batch,
            "ways": {way: _summary(each, found["nothing"]) for way, each in found.items()},
        }
    return told


def _typical(begun: list[float]) -> float:
    """Seconds a step, saves included: the median over every ten steps in a row, each of which holds one save."""
    return float(np.median([(begun[at + EVERY] - begun[at]) / EVERY for at in range(0, len(begun) - EVERY, EVERY)]))


def _summary(each: dict[str, list[float]], nothing: dict[str, list[float]]) -> dict[str, float]:
    step = statistics.median(each["step"])
    return {
        "stall_ms": round(1000 * statistics.median(each["stall"]), 1),
        "stall_ms_90": round(1000 * float(np.quantile(each["stall"], 0.9)), 1),
        "step_ms": round(1000 * step, 1),
        "per_save_ms": round(1000 * EVERY * (step - statistics.median(nothing["step"])), 1),
    }


# -- what saving all the time costs ------------------------------------------------------------------------------------


class Turns:
    """Two trainings at once, of which only one runs: they take turns of ten steps, each of which holds one save.

    What else the machine does changes from one second to the next; what is compared lies within two seconds.
    """

    def __init__(self, ways: tuple[str, str]) -> None:
        self._ways = ways
        self._changed = threading.Condition()
        self._whose = ways[0]
        self._left: set[str] = set()

    def wait(self, way: str) -> None:
        """Returns when it is the turn of ``way``."""
        with self._changed:
            self._changed.wait_for(lambda: self._whose == way or self._other(way) in self._left)

    def give(self, way: str, *, for_good: bool = False) -> None:
        """The turn of ``way`` is over."""
        with self._changed:
            self._whose = self._other(way)
            if for_good:
                self._left.add(way)
            self._changed.notify_all()

    def _other(self, way: str) -> str:
        return self._ways[1 - self._ways.index(way)]


class InTurns(Times):
    """Seconds of each turn of one training; the turn ends before a save, so that its writing falls into its own."""

    def __init__(self, way: str, turns: Turns) -> None:
        super().__init__()
        self._way, self._turns, self._steps = way, turns, 0
        self._since: float | None = None
        self.seconds: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._steps += 1
        if self._steps % EVERY:
            return
        if self._since is not None:
            self.seconds.append(time.perf_counter() - self._since)
        self._turns.give(self._way)
        self._turns.wait(self._way)
        self._since = time.perf_counter()


def in_turns(width: int, batch: int, steps: int) -> dict[str, list[float]]:
    """Seconds of the turns of bare `fit`, and of ours with a local checkpoint every ten steps."""
    turns = Turns(("bare", "ours"))
    found = {}

    def train(way: str, fit: Callable[..., None]) -> None:
        turns.wait(way)
        model, times = make(width), InTurns(way, turns)
        fit(model, {"x": data(width, batch, steps), "verbose": 0}, times)
        turns.give(way, for_good=True)
        found[way] = times.seconds[2:]  # in the first ones things are traced and warm up

    # Ours on the main thread, where signal handlers can be installed.
    other = threading.Thread(target=train, args=("bare", plainly))
    other.start()
    train("ours", ours)
    other.join()
    return found


def measure_overhead(pairs: int, turns: int) -> dict[str, Any]:
    """Bare `fit` and ours with a local checkpoint every ten steps, in pairs of trainings that take turns."""
    width = WIDTHS["1 M"]
    batch = batch_for(width, 0.1)
    ratios, bare = [], []
    for _ in range(pairs):
        found = in_turns(width, batch, (turns + 3) * EVERY)
        around = zip(found["ours"], itertools.pairwise(found["bare"]), strict=False)
        ratios.append(statistics.median(ours / statistics.mean(plain) for ours, plain in around))
        bare += found["bare"]
    low, high = _interval(ratios)
    return {
        "pairs": pairs,
        "turns": turns,
        "step_ms": round(1000 * statistics.median(bare) / EVERY, 1),
        "state_mb": round(make(width).count_params() * 12 / 1e6, 1),
        "ratio": round(statistics.median(ratios), 4),
        "interval": [round(low, 4), round(high, 4)],
        "ratios": [round(ratio, 4) for ratio in ratios],
    }


def _interval(values: list[float]) -> tuple[float, float]:
    """95 % of the medians of samples drawn from the values."""
    drawn = random.Random(0)
    medians = sorted(statistics.median(drawn.choices(values, k=len(values))) for _ in range(4000))
    return medians[100], medians[-101]


# -- the page ----------------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    facts = telemetry.environment()
    keys = ("cpu", "usable_cores", "python", "versions", "gpus")
    return {**{key: facts[key] for key in keys if key in facts}, "load": round(os.getloadavg()[0], 2)}


def write_page() -> None:
    lines = [
        "# Benchmarks",
        "",
        "Made by `scripts/bench`; the numbers behind the tables are in `docs/benchmarks/`.",
        "",
    ]
    saves, overhead = (_read(name) for name in ("checkpoint", "overhead"))
    if saves:
        lines += _page_of_saves(saves)
    if overhead:
        lines += _page_of_overhead(overhead)
    if tracking := _read("tracking"):
        lines += bench_tracking.page(tracking)
    (ROOT / "docs" / "benchmarks.md").write_text("\n".join(lines))


def _page_of_saves(told: dict[str, Any]) -> list[str]:
    lines = [
        "## What one checkpoint costs",
        "",
        "Adam, a save after every tenth step. *Stall*: by how much a save and the two steps after it take longer than",
        "three of the steps right before it (copy-on-write moves the copy into the next step): median, and the ninth",
        "decile. *Per save*: by how much ten steps with one save take longer than ten without, the writing in the",
        "background included; medians of interleaved rounds.",
        "",
        _machine_line(told["machine"]),
        "",
        "| model | way | stall, ms | stall (90 %), ms | per save, ms | stall / copy in memory |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, size in told["models"].items():
        copy = size["ways"]["copy in memory"]["stall_ms"]
        for way, each in size["ways"].items():
            if way == "nothing":
                continue
            ratio = each["stall_ms"] / copy if copy > 0 else float("nan")
            lines.append(
                f"| {name}, {size['state_mb']} MB | {way} | {each['stall_ms']} | {each['stall_ms_90']} "
                f"| {each['per_save_ms']} | {ratio:.2f} |"
            )
    return [*lines, ""]


def _page_of_overhead(told: dict[str, Any]) -> list[str]:
    result = told["result"]
    low, high = result["interval"]
    return [
        "## What saving all the time costs",
        "",
        f"Our `fit` with a local checkpoint every ten steps of {result['step_ms']} ms, state of {result['state_mb']} "
        f"MB, against bare `fit`: **{result['ratio']}** of its time (median of {result['pairs']} pairs of "
        f"trainings that take turns of ten steps, which hold one save; each pair by the median of {result['turns']} "
        f"turns against the bare ones around them; 95 % interval {low} to {high}).",
        "",
        _machine_line(told["machine"]),
        "",
    ]


def _machine_line(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    load = f"load {facts.get('load')} at the start"
    return f"Machine: {facts.get('cpu')}, {facts.get('usable_cores')} cores, {load}; {versions}."


def _read(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("checkpoint", "overhead", "report"))
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works")
    arguments = parser.parse_args()
    before = machine()
    told: dict[str, Any] = {"format": 1, "machine": before}
    if arguments.what == "checkpoint":
        told["models"] = measure_saves(1 if arguments.quick else 3, 30 if arguments.quick else 60)
    elif arguments.what == "overhead":
        told["result"] = measure_overhead(2 if arguments.quick else 20, 3 if arguments.quick else 10)
    if arguments.what != "report":
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{arguments.what}.json").write_text(json.dumps(told, indent=1) + "\n")
    write_page()


if __name__ == "__main__":
    main()
