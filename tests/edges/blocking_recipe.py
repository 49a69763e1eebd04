"""A recipe whose data comes from Python, one record at a time, and stops coming where a file asks it to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tests.edges.slow_recipe import BATCH, RECORDS, _arrays, build_model, callbacks, hang_if_asked

__all__ = ["build_model", "callbacks", "load_data"]


def load_data(params: Mapping[str, Any]) -> tuple[tf.data.Dataset, None]:
    images, labels = _arrays(0, RECORDS)

    def records() -> Iterator[tuple[np.ndarray, np.int64]]:
        for number in range(RECORDS):
            if number == 5 * BATCH:
                hang_if_asked("data")
            yield images[number], labels[number]

    signature = (tf.TensorSpec((4,), tf.float32), tf.TensorSpec((), tf.int64))
    return tf.data.Dataset.from_generator(records, output_signature=signature).batch(BATCH), None
