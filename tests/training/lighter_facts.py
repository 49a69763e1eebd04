"""What runs in the child of test_lighter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.training import lighter, pristine


def _pipeline() -> tf.data.Dataset:
    tf.random.set_seed(3)
    numbers = tf.data.Dataset.range(20).shuffle(20)
    return numbers.map(lambda number: number * 2, num_parallel_calls=4).batch(8).prefetch(2)


def _epochs(data: tf.data.Dataset) -> list[list[int]]:
    return [[int(number) for batch in data for number in batch] for _ in range(2)]


def compare(folder: Path) -> dict[str, Any]:
    settings = Settings(input_reduction=4, validation_pieces=2)
    less = lighter.training({"x": _pipeline()}, settings)["x"]
    nodes = {node.name: node for node in pristine.graph_of(less).node}
    amounts = [
        int(tf.make_ndarray(nodes[node.input[at].split(":")[0]].attr["value"].tensor))
        for node in nodes.values()
        for op, at in (("ParallelMapDatasetV2", -1), ("PrefetchDataset", 1))
        if node.op == op
    ]
    batches = lighter.validation({"x": _pipeline(), "steps_per_epoch": None, "batch_size": None}, settings)["x"]
    return {
        "plain": _epochs(_pipeline()),
        "lighter": _epochs(less),
        "amounts": amounts,
        "validation": [len(batch) for batch in batches],
    }
