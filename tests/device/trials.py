"""Device settings put in force: what runs in the children, where TensorFlow has computed nothing yet."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import config as tf_config

from mlflow_resilience import device
from tests.remedies.trials import digits


def _told(found: list[device.Told]) -> dict[str, Any]:
    return {each.name: [each.done, each.text] for each in found}


def early(folder: Path) -> dict[str, Any]:
    """Before anything is computed, on a machine without a GPU; and the same again when it is too late."""
    text = "memory_growth,threads:3:2,deterministic"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        first = _told(device.configure(text))
        limited = _told(device.configure("memory_limit:1GB"))
    tf.constant(1.0) + tf.constant(2.0)
    with warnings.catch_warnings(record=True) as late_warned:
        warnings.simplefilter("always")
        same = _told(device.configure("threads:3:2"))
        late = _told(device.configure("threads:5"))
    threading = tf.config.threading
    return {
        "first": {**first, **limited},
        "late": late,
        "same": same,
        "warned": [str(each.message) for each in warned],
        "late_warned": [str(each.message) for each in late_warned],
        "threads": [threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads()],
        "deterministic": bool(tf_config.is_op_determinism_enabled()),
    }


def _model(last: str = "float32", **compiling: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    layers = keras.layers
    made = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Flatten(),
            layers.Dense(32, activation="relu"),
            layers.Dense(10, dtype=last),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **compiling)
    return made


def precise(folder: Path) -> dict[str, Any]:
    """The digits learned in each precision, and what is said of models that do not go with it."""
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    (x, y), held_out = digits(400)
    for precision in ("none", "mixed_bfloat16", "mixed_float16"):
        keras.config.set_dtype_policy("float32")
        told = _told(device.configure(precision=precision))
        made = _model()
        suits = [each.text for each in device.suit(made, precision=precision)]
        history = made.fit(x, y, batch_size=16, epochs=8, validation_data=held_out, verbose=0)
        found[precision] = {
            "told": told,
            "suits": suits,
            "accuracy": float(history.history["val_accuracy"][-1]),
            "computes": made.layers[1].compute_dtype,
            "keeps": str(made.layers[1].kernel.dtype),
            "optimizer": type(made.optimizer).__name__,
        }
    narrow = _model(last="mixed_float16")
    found["narrow"] = [each.text for each in device.suit(narrow, precision="mixed_float16")]
    keras.config.set_dtype_policy("float32")
    found["elsewhere"] = [each.text for each in device.suit(_model(), precision="mixed_bfloat16")]
    return found


def compiled(folder: Path) -> dict[str, Any]:
    """XLA for a model that it can compile, and for two that it cannot."""
    warnings.simplefilter("ignore")
    (x, y), _ = digits()
    made, plain = _model(), _model()
    found = {"plain": bool(plain.jit_compile), "told": _told(device.suit(made, "xla")), "jit": bool(made.jit_compile)}
    losses = [
        each.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0).history["loss"] for each in (made, plain)
    ]
    eager = _told(device.suit(_model(run_eagerly=True), "xla"))
    picture = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.RandomRotation(0.1), keras.layers.Flatten()])
    picture.compile("adam", "mse")
    unfit = _told(device.suit(picture, "xla"))
    return {**found, "losses": losses, "eager": eager, "unfit": unfit, "left": bool(picture.jit_compile)}
