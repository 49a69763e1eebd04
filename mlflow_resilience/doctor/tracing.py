"""One training step, traced and not run: does it fit together, and how much memory does it hold at its peak?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.doctor.finding import Finding
from mlflow_resilience.doctor.room import Need
from mlflow_resilience.explain import explain
from mlflow_resilience.training import state

#: What gives on what it is given, without memory of its own.
_VIEWS = frozenset(
    {"Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "ReadVariableOp", "PreventGradient"}
)

#: What asks a result for its shape only, which is done as soon as there is one.
_OF_SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})


def traced(model: keras.Model, spec: Any) -> Any:
    """The graph of a step on batches of ``spec``. Raises what tracing it raises."""
    return tf.function(model.train_step, autograph=False).get_concrete_function(spec).graph


def refused(error: Exception) -> Finding:
    """A step that cannot be traced cannot be trained."""
    told = explain(f"{type(error).__name__}: {error}")
    return Finding(severity="error", check="step", text=f"a step cannot be traced: {told.root_cause}", remedy=told.hint)


def need(model: keras.Model, graph: Any) -> Need:
    """The memory of a training with such steps."""
    trained = sum(_size(variable) for variable in model.trainable_variables)
    weights = sum(_size(variable) for variable in state.variables(model, "model"))
    slots = sum(_size(variable) for variable in state.variables(model, "optimizer"))
    return Need(weights=weights + trained, slots=slots, step=max(0, peak(graph) - trained))


def peak(graph: Any) -> int:
    """The most bytes that the results of the graph's operations hold at one time, when they run one after another and
    each result is freed after its last use. A dimension that is open counts as one."""
    operations = graph.get_operations()
    root: dict[str, str] = {}  # a view, by the tensor that it is one of
    for operation in operations:
        if operation.type in _VIEWS and operation.inputs:
            source = operation.inputs[0].name
            root.update({output.name: root.get(source, source) for output in operation.outputs})
    last: dict[str, int] = {}
    for at, operation in enumerate(operations):
        for tensor in () if operation.type in _OF_SHAPES else operation.inputs:
            last[root.get(tensor.name, tensor.name)] = at
    return max(_levels(operations, root, last), default=0)


def _levels(operations: list[Any], root: dict[str, str], last: dict[str, int]) -> Iterator[int]:
    held, ends = 0, [0] * len(operations)
    for at, operation in enumerate(operations):
        for output in operation.outputs:
            if output.name not in root:
                size = _size(output)
                held += size
                ends[max(at, last.get(output.name, at))] += size
        yield held
        held -= ends[at]


def _size(value: Any) -> int:
    kind, shape = tf.as_dtype(value.dtype), tf.TensorShape(value.shape)
    if kind in (tf.resource, tf.variant, tf.string) or shape.rank is None:
        return 0
    elements: int = math.prod(1 if size is None else size for size in shape.as_list())
    return elements * int(kind.size)
