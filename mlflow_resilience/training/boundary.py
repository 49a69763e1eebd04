"""The boundary between two steps: what a failed step would leave changed, kept so that it can be put back.

A step that fails has run the updates that do not depend on its data (the optimiser's step count, seed generators,
moving statistics). Those variables are small; each step returns their values after it, and a failed one is undone by
assigning them again. Weights and slots need no copy: `hold_updates` lets no update begin before every gradient exists,
and marks when one does, so that a failure before the mark has left them alone, and one after it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.training.clipping import clipped
from mlflow_resilience.training.microbatch import collected
from mlflow_resilience.training.replicas import after_all_replicas
from mlflow_resilience.training.signs import Signs
from mlflow_resilience.training.state import GROUPS, optimizers, value_of, variables

#: Optimiser variables of more elements are slots, which only an update changes.
_SMALL = 1


class Boundary:
    """The small variables of a model and their values at the last boundary."""

    def __init__(self, model: keras.Model) -> None:
        trainable = {id(variable) for variable in model.trainable_variables}
        self.watched = [
            variable
            for group in GROUPS
            for variable in variables(model, group)
            if id(variable) not in trainable and (group != "optimizer" or _size(variable) <= _SMALL)
        ]
        self.updates_begun = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates_begun")
        self._values: list[Any] = self.read()

    def read(self) -> list[Any]:
        """Views of the mark and the watched variables; inside a graph, as they are when all updates before are done."""
        return [tf.identity(self.updates_begun), *(tf.identity(value_of(variable)) for variable in self.watched)]

    def passed(self, values: list[Any] | None = None) -> None:
        """Training stands at a boundary; ``values`` is what :meth:`read` gave there, if it was read."""
        self._values = self.read() if values is None else values

    def restore(self) -> bool:
        """Undo a failed step. False when its updates had begun, so that weights may be half changed."""
        mark, *values = self._values
        untouched = int(self.updates_begun.numpy()) == int(mark.numpy())
        for variable, value in zip(self.watched, values, strict=True):
            variable.assign(value)
        self.updates_begun.assign(mark)
        return untouched

    def tensors(self) -> dict[int, Any]:
        """The watched values by the identity of their variable."""
        return {id(variable): value for variable, value in zip(self.watched, self._values[1:], strict=True)}


def hold_updates(
    model: keras.Model, boundary: Boundary, signs: Signs, bound: Callable[[], float | None] = lambda: None
) -> None:
    """Let the optimisers' updates begin only once every gradient exists; count that they did, and measure them.

    ``bound``, asked when a step is traced, is the norm that they are clipped to.
    """
    for optimizer in optimizers(model):
        _hold(optimizer, boundary.updates_begun, signs, bound)


def release_updates(model: keras.Model) -> None:
    """Take :func:`hold_updates` back."""
    for optimizer in optimizers(model):
        vars(optimizer).pop("apply", None)


def _hold(
    optimizer: keras.optimizers.Optimizer, begun: tf.Variable, signs: Signs, bound: Callable[[], float | None]
) -> None:
    original = type(optimizer).apply

    def apply(grads: Any, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        if collected(optimizer, grads, trainable_variables):
            return None
        present = [gradient for gradient in grads if gradient is not None]
        with tf.control_dependencies(after_all_replicas(present)):
            mark = begun.assign_add(1, read_value=False)
        with tf.control_dependencies([mark] if mark is not None else []):
            grads = [gradient if gradient is None else _same(gradient) for gradient in grads]
        if present:
            squares = signs.measure(optimizer, present)
            if (norm := bound()) is not None:
                grads = clipped(grads, tf.sqrt(squares), norm)
        return original(optimizer, grads, trainable_variables)

    optimizer.apply = apply


def _same(gradient: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.identity(gradient.values), gradient.indices, gradient.dense_shape)
    return tf.identity(gradient)


def _size(variable: Any) -> int:
    size = 1
    for dimension in variable.shape:
        size *= int(dimension)
    return size
