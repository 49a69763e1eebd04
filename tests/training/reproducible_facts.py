"""What is found in pipelines of many kinds, each with the number of findings' words that are to be in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.training import pipeline, reproducible


def _seeded(elements: int = 20) -> tf.data.Dataset:
    return tf.data.Dataset.range(elements).shuffle(10, seed=1)


def _noisy(value: Any) -> Any:
    return tf.cast(value, tf.float32) + tf.random.uniform(())


def _nested(value: Any) -> tf.data.Dataset:
    inner = tf.data.Dataset.range(4).map(lambda each: each + value, num_parallel_calls=2, deterministic=False)
    return inner.batch(2)


def _augmenting() -> tf.data.Dataset:
    layer = keras.layers.RandomFlip(seed=1)
    images = tf.data.Dataset.from_tensor_slices(np.zeros((8, 4, 4, 1), "float32"))
    return images.map(lambda image: layer(image, training=True), num_parallel_calls=2)


def _options() -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = False
    return _seeded().with_options(options)


class Plain(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return np.zeros((2, 1)), np.zeros(2)


class Drawing(Plain):
    def __getitem__(self, index: int) -> Any:
        return np.random.normal(size=(2, 1)), np.zeros(2)


class OwnStream(Plain):
    def __getitem__(self, index: int) -> Any:
        return np.random.default_rng([1, index]).normal(size=(2, 1)), np.zeros(2)


MADE: dict[str, Callable[[], Any]] = {
    "seeded shuffle": _seeded,
    "unseeded shuffle": lambda: tf.data.Dataset.range(20).shuffle(10),
    "unseeded random": lambda: tf.data.Dataset.random().take(4),
    "serial noise": lambda: _seeded().map(_noisy),
    "parallel noise": lambda: _seeded().map(_noisy, num_parallel_calls=2),
    "stateless noise": lambda: _seeded().map(
        lambda value: tf.random.stateless_uniform((), (1, value)), num_parallel_calls=2
    ),
    "parallel layer": _augmenting,
    "unordered map": lambda: _seeded().map(lambda value: value, num_parallel_calls=2, deterministic=False),
    "unordered interleave": lambda: _seeded().interleave(
        lambda value: tf.data.Dataset.range(value), num_parallel_calls=2, deterministic=False
    ),
    "ordered interleave": lambda: _seeded().interleave(
        lambda value: tf.data.Dataset.range(value), num_parallel_calls=2
    ),
    "unordered within": lambda: _seeded().flat_map(_nested),
    "unordered options": _options,
    "one worker draws": lambda: Drawing(),
    "two workers draw": lambda: Drawing(workers=2),
    "two workers, own streams": lambda: OwnStream(workers=2),
    "two workers, nothing drawn": lambda: Plain(workers=2),
}


def found(folder: Path) -> dict[str, list[str]]:
    """The findings in each, before TensorFlow was given a seed; and in arrays, before and after."""
    arrays = {"x": np.zeros((4, 1)), "shuffle": True}
    told = {name: reproducible.findings(make()) for name, make in MADE.items()}
    told["unseeded arrays"] = reproducible.unseeded_order(arrays)
    keras.utils.set_random_seed(3)
    told["seeded arrays"] = reproducible.unseeded_order(arrays)
    told["shuffle after the seed"] = reproducible.findings(MADE["unseeded shuffle"]())
    return told


def held(folder: Path) -> dict[str, Any]:
    """What the buffers of some pipelines may hold: records and batches."""
    made = {
        "shuffle, batch, prefetch": _seeded().batch(4).prefetch(3),
        "shuffle of batches": tf.data.Dataset.range(20).batch(4).shuffle(5, seed=1),
        "nothing held": tf.data.Dataset.range(20).batch(4),
        "cache": tf.data.Dataset.range(20).cache().batch(4),
        "shuffle within": tf.data.Dataset.range(4).flat_map(lambda each: tf.data.Dataset.range(9).shuffle(5, seed=1)),
    }
    counted = {name: pipeline.held(data) for name, data in made.items()}
    return {name: None if each is None else [each.records, each.batches] for name, each in counted.items()}
