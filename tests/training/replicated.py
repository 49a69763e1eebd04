"""Trainings on several logical devices of one processor: what runs in the children."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.training import checkpoint, state
from mlflow_resilience.training.state import TrainingState
from tests.training import pieces
from tests.training.killing import Kill, Killer
from tests.training.pieces import course, told

EPOCHS = 2
_ALL = state.LASTING


def _strategy(replicas: int) -> tf.distribute.Strategy:
    if not tf.config.get_logical_device_configuration(tf.config.list_physical_devices("CPU")[0]):
        devices = [tf.config.LogicalDeviceConfiguration() for _ in range(replicas)]
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])


def _model(strategy: tf.distribute.Strategy, *, exact: bool = False) -> keras.Model:
    """With layers whose state is each replica's own, unless pieces are to give the same result."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        own = () if exact else (keras.layers.BatchNormalization(), keras.layers.Dropout(0.2))
        return pieces.made(extra=own, metrics=["accuracy"])


def _call(pipeline: str, kills: list[Kill], folder: Path) -> dict[str, Any]:
    x, y, _ = pieces.arrays()
    held_out = {"validation_data": (x[:20], y[:20]), "validation_batch_size": 8, "epochs": EPOCHS, "verbose": 0}
    killers = {"callbacks": [Killer(kills, folder)]} if kills else {}
    if pipeline == "arrays":
        return {"x": x, "y": y, "batch_size": pieces.BATCH, "shuffle": True, **held_out, **killers}
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(30, seed=5).batch(pieces.BATCH)
    return {"x": data if pipeline == "shuffled" else data.filter(lambda *_: True), **held_out, **killers}


def _digest(model: keras.Model) -> str:
    return checkpoint.digest_of(TrainingState(tensors=state.snapshot(model, _ALL)).arrays())


def undisturbed(folder: Path, pipeline: str, replicas: int, ours: bool) -> dict[str, Any]:
    model = _model(_strategy(replicas))
    call = _call(pipeline, [], folder)
    history = pieces.fit(folder, model, call).history if ours else model.fit(**call)
    assert history is not None
    return {"digest": _digest(model), "history": history.history, "own": len(state.variables(model, "replicas"))}


def struck(folder: Path, pipeline: str, replicas: int, kills: list[dict[str, str]], left_out: bool = False) -> Any:
    """One process of a job that is struck; run again until it has ended."""
    model = _model(_strategy(replicas))
    with _first_replica_alone() if left_out else contextlib.nullcontext():
        ended = pieces.fit(folder, model, _call(pipeline, [Kill(**kill) for kill in kills], folder))
    history = None if ended.history is None else ended.history.history
    return {"digest": _digest(model), "history": history}


def _first_replica_alone() -> Any:
    """Inside, no state has what the other replicas have of their own."""
    every = state.variables
    return mock.patch.object(
        state, "variables", lambda model, group: [] if group.startswith("replica") else every(model, group)
    )


def in_pieces(folder: Path, replicas: int) -> dict[str, Any]:
    """Out of memory at step 7 of ten, beside a training that has room."""
    strategy = _strategy(replicas)
    plain, ours = _model(strategy, exact=True), _model(strategy, exact=True)
    call = {**_call("shuffled", [], folder), "epochs": 1}
    plain.fit(**call)
    pieces.fit(folder, ours, {**_call("shuffled", [], folder), "epochs": 1}, faults="oom@7")
    pairs = zip(plain.get_weights(), ours.get_weights(), strict=True)
    return {
        **course(folder),
        "distance": max(float(np.abs(a - b).max()) for a, b in pairs),
        "iterations": [int(model.optimizer.iterations.numpy()) for model in (plain, ours)],
    }


def norms(folder: Path) -> dict[str, Any]:
    """The gradient norms of the same training on one device and on two."""
    found = {}
    spread = _strategy(2)  # before anything else asks for the devices
    for replicas, strategy in ((1, tf.distribute.get_strategy()), (2, spread)):
        place = folder / str(replicas)
        place.mkdir()
        pieces.fit(place, _model(strategy, exact=True), {**_call("arrays", [], folder), "epochs": 1, "shuffle": False})
        points = [point for entry in told(place, "points") for point in entry["points"]]
        found[str(replicas)] = [point[2] for point in points if point[0] == "gradient/global_norm"]
    return found


def quarantined(folder: Path, replicas: int) -> dict[str, Any]:
    """A record that the loss refuses is left out of its replica's part."""
    model = _model(_strategy(replicas), exact=True)
    pieces.fit(folder, model, {**_call("arrays", [], folder), "epochs": 1, "shuffle": False}, faults="corrupt_record@4")
    records = [entry["data"]["records"] for entry in told(folder, "event") if entry["name"] == "quarantine"]
    return {**course(folder), "records": records}
