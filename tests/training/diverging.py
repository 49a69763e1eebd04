"""Trainings whose gradients are measured, or whose loss jumps: what runs in the children."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience import testing
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.fitting import Checkpoints, run_fit
from tests.training.fits import entries, job_in, outcome
from tests.training.kinds import two_optimizers
from tests.training.pipelines import arrays

BATCH, EPOCHS = 8, 1
NORM = "gradient/global_norm"
Made = tuple[keras.Model, dict[str, Any]]


def _made(*layers: Any, optimizer: Any = None, **compiling: Any) -> Made:
    model = keras.Sequential([keras.layers.Input((4, 4, 1)), keras.layers.Flatten(), *layers, keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer or keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **compiling)
    x, y = arrays()
    return model, {"x": x, "y": y, "batch_size": BATCH, "epochs": EPOCHS, "verbose": 0}


def dense() -> Made:
    return _made(keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2))


def clipped() -> Made:
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=0.1)
    return _made(keras.layers.Dense(8, activation="relu"), optimizer=optimizer)


def jit() -> Made:
    return _made(keras.layers.Dense(8, activation="relu"), keras.layers.BatchNormalization(), jit_compile=True)


def eager() -> Made:
    return _made(keras.layers.Dense(8, activation="relu"), run_eagerly=True)


def three_at_once() -> Made:
    return _made(keras.layers.Dense(8, activation="relu"), steps_per_execution=3)


def frozen() -> Made:
    model, call = _made()
    model.trainable = False
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, call


def embedded() -> Made:
    """The gradient of an embedding is a tf.IndexedSlices."""
    layers = [keras.layers.Input((16,)), keras.layers.Embedding(10, 4), keras.layers.Flatten(), keras.layers.Dense(3)]
    model = keras.Sequential(layers)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = arrays()
    words = np.stack([np.random.default_rng(row).permutation(10) for row in range(len(x))])
    words = np.concatenate([words, words[:, :6]], axis=1)
    return model, {"x": words, "y": y, "batch_size": BATCH, "epochs": EPOCHS, "verbose": 0}


def half_precision() -> Made:
    """The first scale is too large for float16: the scaler skips steps until it is not."""
    keras.config.set_dtype_policy("mixed_float16")
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), initial_scale=2.0**24)
    return _made(keras.layers.Dense(8, activation="relu"), optimizer=optimizer)


KINDS: dict[str, Callable[[], Made]] = {
    made.__name__: made
    for made in (dense, clipped, jit, eager, three_at_once, frozen, embedded, half_precision, two_optimizers)
}


def _fresh(kind: str) -> Made:
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(11)
    return KINDS[kind]()


def measured(folder: Path, kinds: list[str]) -> dict[str, Any]:
    """For each kind: whether ours ends as plain `fit` does, the norms that it told, and those of the gradients as an
    eager training sees them."""
    return {kind: _measured(folder / kind, kind) for kind in kinds}


def _measured(folder: Path, kind: str) -> dict[str, Any]:
    model, call = _fresh(kind)
    plain = outcome(model, model.fit(**call))
    model, call = _fresh(kind)
    ours = _fit(folder, model, call)
    told = entries(folder)
    return {
        "equal": ours == plain,
        "norms": points(told, NORM),
        "steps": [step for step, _ in points(told, "batch/loss")],
        "faults": [entry["fault"]["message"] for entry in told if entry["kind"] == "fault"],
        "seen": _seen(kind) if kind in ("dense", "clipped", "jit", "embedded") else [],
    }


def _seen(kind: str) -> list[float]:
    """The norms of the whole gradients, one a step, by NumPy."""
    model, call = _fresh(kind)
    model.run_eagerly = True
    found: list[float] = []

    def watch(optimizer: Any) -> None:
        original = type(optimizer).apply

        def apply(grads: Any, trainable_variables: Any = None) -> None:
            # Rows that an embedding was asked for twice count apart, as in tf.linalg.global_norm.
            values = [np.asarray(getattr(each, "values", each), "float64") for each in grads if each is not None]
            found.append(math.sqrt(sum(float((each**2).sum()) for each in values)))
            original(optimizer, grads, trainable_variables)

        optimizer.apply = apply

    watch(model.optimizer)
    model.fit(**call)
    return found


def points(told: list[dict[str, Any]], key: str) -> list[tuple[int, float]]:
    return [(p[1], p[2]) for entry in told if entry["kind"] == "points" for p in entry["points"] if p[0] == key]


def _fit(folder: Path, model: keras.Model, call: dict[str, Any], faults: str = "none", **more: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    policy = more.pop("policy", Policy())
    checkpoints = Checkpoints(local="2steps", log_models=False)
    job = job_in(folder)
    ended = run_fit(job, model, call, policy=policy, checkpoints=checkpoints, faults=testing.parse(faults))
    job.journal.close()
    assert ended.history is not None
    return outcome(model, ended.history)


class Explosive(keras.layers.Layer):
    """Passes its input on; the gradient of a value above 50 is infinite."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        @tf.custom_gradient
        def passed(value: Any) -> Any:
            return tf.identity(value), lambda upstream: upstream * tf.where(tf.abs(value) > 50.0, math.inf, 1.0)

        return passed(inputs) if training else inputs


def exploding(folder: Path) -> dict[str, Any]:
    """The gradient of step 9 is infinite, while every loss is finite; plainly, and clipped by value."""
    return {name: _exploding(folder / name, clip) for name, clip in (("plain", None), ("clipped", 0.5))}


def _exploding(folder: Path, clipvalue: float | None) -> dict[str, Any]:
    keras.utils.set_random_seed(11)
    optimizer = keras.optimizers.Adam(0.01, clipvalue=clipvalue)
    model, call = _made(keras.layers.Dense(8), Explosive(), optimizer=optimizer)
    call["x"][8 * BATCH] *= 100.0
    _fit(folder, model, {**call, "shuffle": False})
    finite = all(bool(np.isfinite(weight).all()) for weight in model.get_weights())
    return {"finite": finite, "iterations": int(model.optimizer.iterations.numpy())}


def spiked(folder: Path, faults: str, policy: str = "Policy") -> dict[str, Any]:
    """A training of 30 steps that meets ``faults``."""
    keras.utils.set_random_seed(11)
    made = {"Policy": Policy(), "strict": Policy.strict(), "control": Policy.control()}[policy]
    model, call = dense()
    ended = _fit(folder, model, {**call, "epochs": 3}, faults, policy=made)
    return {**ended, "iterations": int(model.optimizer.iterations.numpy())}


def calm(folder: Path, seeds: list[int], kinds: list[str]) -> dict[str, Any]:
    """Clean trainings: how many faults there were, and how far out any loss of a kind was at most."""
    from mlflow_resilience.core import spike

    far: dict[str, Any] = {"faults": 0, "trainings": 0, "distance": dict.fromkeys(kinds, 0.0)}
    distance = spike.LossHistory.distance

    def watched(history: Any, loss: float) -> float:
        found = distance(history, loss)
        far["distance"][kind] = max(far["distance"][kind], found)
        return found

    spike.LossHistory.distance = watched  # type: ignore[method-assign]
    for seed in seeds:
        for kind in kinds:
            place = folder / f"{kind}-{seed}"
            keras.config.set_dtype_policy("float32")
            keras.utils.set_random_seed(seed)
            model, call = {**KINDS, "hasty": hasty, "single": single}[kind]()
            _fit(place, model, {**call, "epochs": 3})
            far["faults"] += sum(entry["kind"] == "fault" for entry in entries(place))
            far["trainings"] += 1
    return far


def hasty() -> Made:
    """A rate at which the loss is far from smooth."""
    return _made(keras.layers.Dense(32, activation="relu"), optimizer=keras.optimizers.Adam(0.3))


def single() -> Made:
    """Batches of one record, and an error that is squared."""
    model = keras.Sequential([keras.layers.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    x, _ = arrays()
    y = np.random.default_rng(3).standard_t(3, size=len(x)).astype("float32")
    return model, {"x": x, "y": y, "batch_size": 1, "epochs": 2, "verbose": 0}
