"""Arrays that come in another order in each epoch.

With a seed set, Keras shuffles arrays into one order and repeats it. Here each epoch draws a number when its iterator
is made, and its order follows from that alone: no operation has a state of its own, so any place in any epoch is found
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.data_adapters import array_slicing
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter


@dataclass(frozen=True)
class EachEpoch:
    """In the place of `fit`'s ``shuffle``: shuffle arrays anew before each epoch."""

    seed: int


def dataset(arrays: ArrayDataAdapter, shuffle: EachEpoch) -> tf.data.Dataset:
    """The batches of ``arrays``, in an order of their own for each iterator that is made."""
    count = arrays._num_samples

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
        records = tf.range(count, dtype=tf.int64)
        return tf.data.Dataset.from_tensor_slices(
            tf.random.experimental.stateless_shuffle(records, [number, shuffle.seed])
        )

    numbers = tf.data.Dataset.random(seed=shuffle.seed, rerandomize_each_iteration=True).take(1)
    order = numbers.flat_map(one_epoch).apply(tf.data.experimental.assert_cardinality(count))
    inputs = array_slicing.convert_to_sliceable(arrays._inputs, target_backend="tensorflow")
    whole = tf.data.Dataset.from_tensors(keras.tree.lists_to_tuples(inputs)).repeat()
    chosen = tf.data.Dataset.zip((order.batch(arrays._batch_size), whole)).map(
        _choose, num_parallel_calls=tf.data.AUTOTUNE
    )
    return chosen.prefetch(tf.data.AUTOTUNE)


def can_be_chosen_from(inputs: Any) -> bool:
    """Whether all of it is dense arrays."""
    return all(hasattr(each, "__array__") for each in keras.tree.flatten(inputs) if each is not None)


def _choose(records: tf.Tensor, data: Any) -> Any:
    return keras.tree.map_structure(lambda each: None if each is None else tf.gather(each, records), data)
