"""Where a pipeline is, as numbers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from mlflow_resilience.training.anchor import Anchor
from mlflow_resilience.training.replicas import parts

#: Of which iterator a batch was, the how manieth (from 0), and its digest: what is found again can be compared.
Mark = dict[str, Any]
_LOOKED_AT = 8192  # elements of each tensor


@dataclass(kw_only=True)
class DataPosition:
    """Where a pipeline is. ``num_batches`` and ``steps_seen`` are Keras's own counts, which outlive an epoch."""

    iterators: int = 0  # made so far, the current one included
    taken: int = 0  # batches taken from the current iterator
    step: int = 0  # steps done in the current epoch
    num_batches: int | None = None  # learned where the cardinality is unknown
    steps_seen: int = 0
    exhausted: bool = False  # more was asked for than there is, and what follows from that is done
    random: dict[str, Any] | None = None  # Python's and NumPy's state when the current iterator was made
    variables: list[Any] = field(default_factory=list)  # that the pipeline uses, likewise
    attributes: dict[str, Any] = field(default_factory=dict)  # of a PyDataset, when the epoch began
    mark: Mark | None = None
    anchor: Anchor | None = None  # of the current iterator, when there is one


def mark(position: DataPosition, batch: Any) -> Mark:
    """The mark that ``batch`` is, when ``position`` is the one before it was taken."""
    return {"iterator": position.iterators, "taken": position.taken, "batch": _digest(batch)}


def is_marked(mark: Mark, batch: Any) -> bool:
    """Whether this is the batch that was marked."""
    return bool(mark["batch"] == _digest(batch))


def _digest(batch: Any) -> str:
    """The same however many replicas the batch is spread over."""
    total = hashlib.sha256()
    for tensors in zip(*(tf.nest.flatten(part, expand_composites=True) for part in parts(batch)), strict=True):
        array = _joined([np.asarray(tensor) for tensor in tensors])
        total.update(repr((array.shape, array.dtype.str)).encode())
        total.update(array.reshape(-1)[:_LOOKED_AT].tobytes())
    return total.hexdigest()


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if len(arrays) > 1 and arrays[0].ndim else arrays[0]
