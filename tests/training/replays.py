"""A recipe whose steps fail in known places; what runs in the children of the tests of replay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience import replaying, testing
from mlflow_resilience.core.policy import Backoff, Policy
from mlflow_resilience.fitting import Checkpoints, run_fit
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.training import finite
from tests.training.fits import job_in


class Inverse(keras.layers.Layer):
    """Infinite where its input is 0."""

    def call(self, inputs: Any) -> Any:
        return 1.0 / inputs


def build_model(params: Mapping[str, Any]) -> keras.Model:
    layers = [keras.Input((4,)), keras.layers.Dense(8, activation="relu", name="first")]
    model = keras.Sequential([*layers, keras.layers.Dropout(0.2), keras.layers.Dense(3, name="last")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(float(params["learning_rate"])), loss)
    return model


def load_data(params: Mapping[str, Any]) -> Any:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(48, 4)).astype("float32"), random.integers(0, 3, 48)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(int(params["batch_size"])), None


def kept(folder: Path, faults: str, limit: str = "10MB") -> list[str]:
    """Train with these faults: the folders of the failed steps that were kept."""
    params = {"learning_rate": 0.01, "batch_size": 8}
    data, _ = load_data(params)
    run_fit(
        job_in(folder),
        build_model(params),
        {"x": data, "epochs": 2, "verbose": 0},
        policy=Policy(backoff=Backoff(first_seconds=0.01)),
        checkpoints=Checkpoints(local="2steps", log_models=False, replay=limit),
        faults=testing.parse(faults),
    )
    return sorted(str(path) for path in folder.rglob("replay/fault-*"))


def answers(folder: Path, faults: str, limit: str = "10MB") -> list[dict[str, Any]]:
    """Train, and replay each failed step."""
    parameters = Parameters(recipe=__file__, learning_rate=0.01, batch_size=8)
    return [replaying.replay(Path(each), parameters) for each in kept(folder, faults, limit)]


def looked_at(folder: Path) -> dict[str, Any]:
    """Where the numbers of small models stop being finite."""
    inner = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="inside"), Inverse(name="inverse")])
    nested = keras.Sequential([keras.Input((2,)), inner, keras.layers.Dense(1, name="outside")])
    nested.get_layer(inner.name).get_layer("inside").set_weights([np.zeros((2, 2)), np.zeros(2)])
    root = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, name="dense"), keras.layers.Lambda(tf.sqrt)])
    root.get_layer("dense").set_weights([np.zeros((1, 1)), np.zeros(1)])
    root.compile("sgd", "mse")
    x = tf.ones((3, 1))
    return {
        "nested": finite.first_output(nested, tf.ones((3, 2))),
        "again": finite.first_output(nested, tf.ones((3, 2))),
        "calls are their own": "call" not in vars(nested.get_layer("outside")),
        "output": finite.first_output(root, x),
        "gradient": finite.first_gradient(root, (x, x)),
    }
