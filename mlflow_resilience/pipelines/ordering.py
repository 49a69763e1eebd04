"""Records in an order that is new in each epoch and depends on nothing but the seed."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def shuffled(columns: tuple[Any, ...], seed: int) -> tf.data.Dataset:
    """Elements ``(key, *record)``: all of the data in a random order, and for each record a key for stateless random
    ops, which is another one in each epoch.

    Each epoch draws one number when its iterator is made, and all that is random follows from it. No op has a state of
    its own: an iterator can be stored in mid-epoch, and one that was made but never read counts too.
    """
    count = len(columns[0])
    tensors = tuple(tf.constant(column) for column in columns)

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
        order = tf.random.experimental.stateless_shuffle(tf.range(count, dtype=tf.int64), [number, seed])
        records = tf.data.Dataset.from_tensor_slices((order, *(tf.gather(each, order) for each in tensors)))
        return records.map(lambda index, *record: (tf.stack([number, index]), *record))

    numbers = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).take(1)
    return numbers.flat_map(one_epoch).apply(tf.data.experimental.assert_cardinality(count))


def in_order(columns: Any) -> tf.data.Dataset:
    """The records in the order given."""
    return tf.data.Dataset.from_tensor_slices(columns)
