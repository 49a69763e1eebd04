"""A training whose times are known: a step takes STEP seconds, and the next batch comes DATA seconds after the last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

STEP, DATA, STEPS = 0.04, 0.1, 40  # tf.data fetches the next batch during a step


class Slow(keras.layers.Layer):
    """Passes its input on, late."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        def wait(value: Any) -> Any:
            time.sleep(STEP if training else 0.0)
            return value

        waited = tf.py_function(wait, [inputs], tf.float32)
        waited.set_shape(inputs.shape)
        return tf.stop_gradient(waited)


def build_model(params: dict[str, Any]) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), Slow(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def _batches() -> Iterator[tuple[Any, Any]]:
    for number in range(STEPS):
        time.sleep(DATA)
        yield np.full((8, 4), number / STEPS, "float32"), np.ones((8, 1), "float32")


def load_data(params: dict[str, Any]) -> tuple[Any, Any]:
    signature = (tf.TensorSpec((8, 4), tf.float32), tf.TensorSpec((8, 1), tf.float32))
    data = tf.data.Dataset.from_generator(_batches, output_signature=signature)
    return data.apply(tf.data.experimental.assert_cardinality(STEPS)), None


def fingerprint(params: dict[str, Any]) -> str:
    return "timed"
