"""What one checkpoint costs the training, ours and others', in one process."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from training import EVERY, WIDTHS, Times, batch_for, data, make, ours, plainly


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


def measure(quick: bool) -> dict[str, Any]:
    """Each way of saving, in turn, on a small model and a large one."""
    rounds, steps = (1, 30) if quick else (3, 60)
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
    return {"models": told}


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


def page(told: dict[str, Any]) -> list[str]:
    lines = [
        "## What one checkpoint costs",
        "",
        "Adam, a save after every tenth step. *Stall*: by how much a save and the two steps after it take longer than",
        "three of the steps right before it (copy-on-write moves the copy into the next step): median, and the ninth",
        "decile. *Per save*: by how much ten steps with one save take longer than ten without, the writing in the",
        "background included; medians of interleaved rounds.",
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
