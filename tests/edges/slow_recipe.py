"""A recipe whose every phase lasts long enough to be struck in, and which stands still where a file asks it to."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

RECORDS, BATCH = 96, 8


def hang_if_asked(place: str) -> None:
    """Once: the file ``hang-PLACE`` is gone when it has been seen."""
    mark = Path(f"hang-{place}")
    if mark.exists():
        mark.rename(f"hung-{place}")
        threading.Event().wait()


class Slowly(keras.callbacks.Callback):
    """Takes its time in each phase."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(0.05)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        hang_if_asked("validation")
        time.sleep(0.15)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        hang_if_asked("epoch_end")
        time.sleep(0.3)


def _slow_disk() -> None:
    """A file system that takes its time with what the thread that saves asks of it."""

    def slowly(place: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*given: Any, **named: Any) -> Any:
            if threading.current_thread().name.startswith("checkpoint-"):
                hang_if_asked(place)
                time.sleep(0.1)
            return call(*given, **named)

        return slow

    os.fsync, os.link = slowly("writing", os.fsync), slowly("logging", os.link)  # type: ignore[assignment]


def _arrays(seed: int, records: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(seed)
    return drawn.normal(size=(records, 4)).astype("float32"), drawn.integers(0, 3, records)


def load_data(params: Mapping[str, Any]) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    hang_if_asked("restart")
    _slow_disk()
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
