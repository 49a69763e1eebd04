"""A batch trained in pieces with one optimiser step: the same effective batch in less memory.

Each piece runs the model's own `train_step`, whose optimisers give their gradients away (`collected`); they are added
up with the pieces' sizes as weights, and applied once. Learning-rate schedules, averages of weights and clipping see
one step, as they would without pieces. What depends on the batch as a whole cannot be equal: batch normalisation and
dropout.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

Step = Callable[[Any], Any]

#: Layers whose result for a record depends on the other records of its batch, or on how often they were called.
_BATCH_DEPENDENT = (keras.layers.BatchNormalization,)


def in_pieces(model: keras.Model, pieces: int) -> Step:
    """A step like ``model.train_step`` that trains the batch in ``pieces`` parts of nearly equal size.

    The batch must have at least ``pieces`` records.
    """
    if pieces == 1:
        return model.train_step

    def train_step(data: Any) -> Any:
        size = _records(data)
        total = _Gradients()
        logs: Any = None
        barrier: list[Any] = []
        for index in range(pieces):
            first, last = index * size // pieces, (index + 1) * size // pieces
            with tf.control_dependencies(barrier):
                piece = tf.nest.map_structure(lambda tensor, a=first, b=last: tensor[a:b], data)
            weight = tf.cast(last - first, tf.float32) / tf.cast(size, tf.float32)
            with total.collecting(weight):
                logs = model.train_step(piece)
            barrier = [tensor for tensor in tf.nest.flatten([logs, total.latest()]) if tensor is not None]
        total.apply()
        return logs

    return train_step


def changes_result(model: keras.Model) -> str | None:
    """Why training in pieces gives another result than training the whole batch; None when only rounding differs."""
    layers = list(model._flatten_layers())
    for layer in layers:
        if isinstance(layer, _BATCH_DEPENDENT):
            return f"the statistics of {layer.name} are taken over each piece"
    for layer in layers:
        if getattr(layer, "seed_generator", None) is not None:
            return f"{layer.name} draws its random numbers once a piece"
    return None


def collected(optimizer: Any, grads: list[Any], trainable_variables: Any) -> bool:
    """Whether these gradients are those of a piece: they are now part of its batch's sum, and not to be applied."""
    current = getattr(_collecting, "current", None)
    if current is None:
        return False
    total, weight = current
    total.add(optimizer, grads, None if trainable_variables is None else list(trainable_variables), weight)
    return True


#: The sum that is under way, and the weight of the piece: of each thread, since replicas are traced in threads.
_collecting = threading.local()


class _Gradients:
    """The sum of the pieces' gradients, kept for each optimiser that the step applies."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[Any, list[Any], Any]] = {}

    @contextlib.contextmanager
    def collecting(self, weight: Any) -> Iterator[None]:
        _collecting.current = (self, weight)
        try:
            yield
        finally:
            _collecting.current = None

    def add(self, optimizer: Any, grads: list[Any], trainable_variables: Any, weight: Any) -> None:
        scaled = [None if g is None else _dense(g) * tf.cast(weight, g.dtype) for g in grads]
        if id(optimizer) in self._sums:
            before = self._sums[id(optimizer)][1]
            scaled = [a if b is None else b if a is None else a + b for a, b in zip(before, scaled, strict=True)]
        self._sums[id(optimizer)] = (optimizer, scaled, trainable_variables)

    def latest(self) -> list[Any]:
        return [gradient for _, grads, _ in self._sums.values() for gradient in grads]

    def apply(self) -> None:
        for optimizer, grads, trainable_variables in self._sums.values():
            optimizer.apply(grads, trainable_variables)


def _dense(gradient: Any) -> Any:
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def _records(data: Any) -> Any:
    return tf.shape(next(tensor for tensor in tf.nest.flatten(data) if tensor is not None))[0]
