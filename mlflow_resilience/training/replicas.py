"""A batch that is spread over the replicas of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def count(model: Any) -> int:
    """How many replicas a model has."""
    strategy = model._distribute_strategy
    return 1 if strategy is None else int(strategy.num_replicas_in_sync)


def parts(batch: Any) -> list[Any]:
    """What each replica is given; a batch that is not spread is its own only part."""
    spread = next((each for each in tf.nest.flatten(batch) if isinstance(each, tf.distribute.DistributedValues)), None)
    if spread is None:
        return [batch]
    return [tf.nest.map_structure(lambda each, at=at: _at(each, at), batch) for at in range(len(spread.values))]


def joined(batch: Any, parts: list[Any]) -> Any:
    """A batch like ``batch``, of these parts."""
    if len(parts) == 1:
        return parts[0]
    flat = [tf.nest.flatten(part, expand_composites=True) for part in parts]
    values = [value for each in zip(*flat, strict=True) for value in each]
    return tf.nest.pack_sequence_as(batch, values, expand_composites=True)


def records(batch: Any) -> int | None:
    """How many records a batch has, over all its parts; None where that cannot be told."""
    counts = [_first_dimension(part) for part in parts(batch)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def fewest_records(batch: Any) -> int:
    """How many records the smallest part has; at least 1."""
    return max(1, min(_first_dimension(part) or 1 for part in parts(batch)))


def after_all_replicas(tensors: list[Any]) -> list[Any]:
    """What exists only once ``tensors`` do, in every replica of the step: none may go ahead where another one fails."""
    if _one_of_several() is None:
        return tensors
    with tf.control_dependencies(tensors):
        done = tf.identity(tf.constant(0.0))
    return summed([done])


def summed(tensors: list[Any]) -> list[Any]:
    """The sums of tensors over the replicas of the step."""
    replica = _one_of_several()
    return tensors if replica is None else list(replica.all_reduce(tf.distribute.ReduceOp.SUM, tensors))


def is_first_replica() -> bool:
    """Whether what is traced here is the first replica's part of the step, or the only one."""
    replica = _one_of_several()
    return replica is None or int(tf.get_static_value(replica.replica_id_in_sync_group)) == 0


def _one_of_several() -> Any:
    replica = tf.distribute.get_replica_context()
    return None if replica is None or replica.num_replicas_in_sync == 1 else replica


def _at(value: Any, replica: int) -> Any:
    return value.values[replica] if isinstance(value, tf.distribute.DistributedValues) else value


def _first_dimension(part: Any) -> int | None:
    for tensor in tf.nest.flatten(part):
        shape = getattr(tensor, "shape", None)
        if shape is not None and len(shape) > 0:
            return int(np.shape(tensor)[0]) if not isinstance(tensor, tf.RaggedTensor) else int(tensor.nrows())
    return None
