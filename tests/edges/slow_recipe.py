"""A recipe whose every phase lasts long enough to be struck in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

RECORDS, BATCH = 96, 8


class Slowly(keras.callbacks.Callback):
    """Takes its time in each phase."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(0.05)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(0.15)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        time.sleep(0.3)


def _arrays(seed: int, records: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(seed)
    return drawn.normal(size=(records, 4)).astype("float32"), drawn.integers(0, 3, records)


def load_data(params: Mapping[str, Any]) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    train = tf.data.Dataset.from_tensor_slices(_arrays(0, RECORDS)).shuffle(RECORDS).batch(BATCH).prefetch(2)
    return train, tf.data.Dataset.from_tensor_slices(_arrays(1, 24)).batch(BATCH)


def build_model(params: Mapping[str, Any]) -> keras.Model:
    hidden = [keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.3), keras.layers.BatchNormalization()]
    model = keras.Sequential([keras.Input((4,)), *hidden, keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(params["learning_rate"]), loss, metrics=["accuracy"])
    return model


def callbacks(params: Mapping[str, Any]) -> list[keras.callbacks.Callback]:
    return [Slowly(), keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=0, min_delta=0.2)]
