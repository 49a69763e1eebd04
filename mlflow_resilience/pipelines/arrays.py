"""Arrays as training and validation data."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import tensorflow as tf

from mlflow_resilience.errors import UsageError
from mlflow_resilience.pipelines import ordering
from mlflow_resilience.pipelines.augmenting import Change, change
from mlflow_resilience.pipelines.built import Built
from mlflow_resilience.pipelines.splitting import split

LARGEST = 1 << 30  # bytes: the arrays are part of the pipeline's graph, which may hold 2 GiB


def arrays(
    x: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    batch_size: int = 32,
    seed: int = 0,
    validation: float = 0.2,
    augment: str | Change = "none",
    parallel: int = tf.data.AUTOTUNE,
    prefetch: int = 2,
) -> Built:
    """Rows of ``x`` and ``y`` (and weights) as batches ``(x, y[, weight])``, in a new order each epoch.

    ``validation`` is the share that is held out: of each class where ``y`` holds one whole number a row, else of all.
    ``augment`` as for pictures: rows of ``x`` are then (height, width, channels) in 0..1. All of it follows from
    ``seed``, so that a training repeats itself, and resumes exactly; a row that fails is left out by its number.

    Raises UsageError for arrays of different lengths, empty ones, and of more than 1 GiB together (give those to
    ``fit`` as they are).
    """
    columns = tuple(np.asarray(each) for each in (x, y, sample_weight) if each is not None)
    _check(columns, batch_size)
    changed = change(augment)
    if changed is not None and columns[0].ndim != 4:
        raise UsageError(
            f"augment={augment}: pictures (height, width, channels) are needed, not {columns[0].shape[1:]}"
        )
    labels = columns[1] if columns[1].ndim == 1 and columns[1].dtype.kind in "iub" else np.zeros(len(columns[0]), int)
    training, held_out = split(labels, validation, seed)
    tensors = tuple(tf.constant(each) for each in columns)

    def augmented(key: Any, index: Any) -> Any:
        first, *rest = (tf.gather(each, index) for each in tensors)
        shape = first.shape
        return (first if changed is None else tf.ensure_shape(changed(first, key), shape), *rest)

    def plain(index: Any) -> Any:
        return tuple(tf.gather(each, index) for each in tensors)

    def batched(records: tf.data.Dataset, make: Any) -> tf.data.Dataset:
        made = records.map(make, num_parallel_calls=parallel, deterministic=True)
        return made.batch(batch_size).prefetch(prefetch)

    return Built(
        train=batched(ordering.shuffled((training,), seed), augmented),
        validation=batched(ordering.in_order(held_out), plain) if len(held_out) else None,
        classes=(),
        training_records=len(training),
        validation_records=len(held_out),
        fingerprint=_digest(columns, validation),
    )


def _check(columns: tuple[np.ndarray, ...], batch_size: int) -> None:
    lengths = [len(each) if each.ndim else 0 for each in columns]
    if len(set(lengths)) != 1 or not lengths[0]:
        raise UsageError(
            f"arrays of one length, and not empty, are needed: these have {', '.join(map(str, lengths))} rows"
        )
    if sum(each.nbytes for each in columns) > LARGEST:
        raise UsageError("these arrays take more than 1 GiB: give them to fit as they are")
    if batch_size < 1:
        raise UsageError(f"batch_size={batch_size}: a whole number, 1 or more, is needed")


def _digest(columns: tuple[np.ndarray, ...], validation: float) -> str:
    digest = hashlib.sha256(str(validation).encode())
    for each in columns:
        digest.update(f"{each.shape} {each.dtype}".encode())
        digest.update(np.ascontiguousarray(each).tobytes())
    return digest.hexdigest()[:16]
