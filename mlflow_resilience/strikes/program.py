"""What is wrong with a program: an error of its own, shapes that do not fit, a library that is not there."""

from __future__ import annotations

import ctypes
from typing import Any

from mlflow_resilience.strikes.place import Place, Strike


def _raise(batch: Any, place: Place) -> Any:
    raise RuntimeError("a fault on purpose, as user code might raise it")


def _bug(batch: Any, place: Place) -> Any:
    import tensorflow as tf

    first = tf.nest.flatten(batch, expand_composites=True)[0]
    flat = tf.reshape(tf.cast(first, tf.float32), (tf.shape(first)[0], -1))
    columns = int(flat.shape[-1] or tf.shape(flat)[-1])

    return tf.function(lambda: tf.matmul(flat, tf.zeros((columns + 1, 1))), autograph=False)()


def _environment(batch: Any, place: Place) -> Any:
    return ctypes.CDLL("libmissing_on_purpose.so.1")


STRIKES: dict[str, Strike] = {"raise": _raise, "bug": _bug, "environment": _environment}
