"""The same data with less memory: fewer elements held ready, fewer made at a time, smaller validation batches.

Order and content stay as they are, so training goes on to the same weights; a shuffle buffer, which decides the order,
is left alone.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.training import pristine
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.records import NoRecords, batch_size

#: The input of each op that says how many elements it holds ready or makes at a time.
_AMOUNTS = {
    "PrefetchDataset": 1,
    "ParallelMapDatasetV2": -1,
    "ParallelInterleaveDatasetV4": -1,
    "ParallelBatchDataset": 2,
}


def plan(given: Plan, settings: Settings) -> tuple[Plan, str | None]:
    """The plan with data that needs less memory, and why a part of it does not."""
    why = None
    try:
        train = training(given.training, settings)
    except pristine.NotCopyable as error:
        train, why = given.training, f"prefetch and parallelism stay as they are: {error}"
    held_out = validation(given.validation, settings) if given.validation else None
    return replace(given, training=train, validation=held_out), why


def training(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The data adapter's arguments with prefetch and parallelism divided. Raises pristine.NotCopyable."""
    data = arguments["x"]
    if settings.input_reduction == 1 or not isinstance(data, tf.data.Dataset):
        return arguments
    graph = pristine.graph_of(data)
    nodes = {node.name: node for node in graph.node}
    for node in list(graph.node):
        if node.op in _AMOUNTS:
            _replace(graph, node, nodes, settings.input_reduction)
    return {**arguments, "x": pristine.from_graph(graph, data.element_spec)}


def validation(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The data adapter's arguments with each batch in pieces. Data whose batch is unknown stays as it is."""
    pieces = settings.validation_pieces
    size = _batch_size(arguments)
    if pieces == 1 or size is None:
        return arguments
    smaller = -(-size // pieces)
    steps = arguments["steps_per_epoch"]
    changed = {**arguments, "steps_per_epoch": None if steps is None else steps * -(-size // smaller)}
    if isinstance(arguments["x"], tf.data.Dataset):
        return {**changed, "x": arguments["x"].rebatch(smaller)}
    return {**changed, "batch_size": smaller}


def _replace(graph: Any, node: Any, nodes: dict[str, Any], divisor: int) -> None:
    at = _AMOUNTS[node.op]
    name = node.input[at].split(":")[0]
    held = int(tf.make_ndarray(nodes[name].attr["value"].tensor))
    fewer = max(1, (held if held > 0 else os.cpu_count() or 1) // divisor)
    constant = graph.node.add(op="Const", name=f"{node.name}_fewer".replace("/", "_"))
    constant.attr["dtype"].type = tf.int64.as_datatype_enum
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.int64(fewer)))
    node.input[at] = constant.name


def _batch_size(arguments: dict[str, Any]) -> int | None:
    data = arguments["x"]
    if not isinstance(data, tf.data.Dataset):
        return arguments.get("batch_size") or (None if callable(getattr(data, "__getitem__", None)) else 32)
    try:
        return batch_size(pristine.graph_of(data), data.element_spec)
    except (NoRecords, pristine.NotCopyable, ValueError, tf.errors.OpError):
        return None
