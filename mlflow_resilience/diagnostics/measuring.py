"""Gradients of each layer, taken where an optimiser is applied to them: in the graph of the step, and in no other pass.

The step itself stays what it is: what is added reads the gradients, under a condition that is off in all steps but
those that are looked at, and writes into one small variable of ours. Under XLA a condition would change how the rest
is fused, and with that the last bits of the training (seen on CPU: 2e-9); there it is unconditional, which left all
bits as they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from mlflow_resilience.diagnostics.layout import Layout
from mlflow_resilience.training.state import optimizers

_HOOK = "_backend_apply_gradients"  # below `apply`, which recovery has in hand; before clipping, after unscaling
_WRAP = 1 << 20  # counts are exact in float32 up to here and beyond


class Gauge:
    """Measures the gradients of the next steps when it is told to; compiled by XLA, those of all. With several
    replicas, the first one's."""

    def __init__(self, model: keras.Model, layout: Layout) -> None:
        self._layout = layout
        count = len(layout.variables)
        self._places = {id(variable): at for at, variable in enumerate(layout.variables, start=1)}
        self._units = {
            id(variable): 1 + count + at[0]
            for variable, at in zip(layout.unit_variables, layout.units, strict=True)
            if variable is not None and at is not None
        }
        self._due = tf.Variable(0.0, trainable=False, name="diagnostics_due")
        # A count of measurements, the sum of squares of each variable's gradient, and the gradient of each unit.
        self.told = tf.Variable(tf.zeros(1 + count + layout.unit_count), trainable=False, name="diagnostics_told")
        self._seen = 0.0
        self._wanted = False
        self._always = bool(model.jit_compile)
        self._hooked = applied(model)
        for optimizer in self._hooked:
            _hook(optimizer, self._measure)

    def want(self, wanted: bool) -> None:
        """Whether the steps that follow are to be measured."""
        if wanted != self._wanted:
            self._due.assign(1.0 if wanted else 0.0)
            self._wanted = wanted

    def norms(self, told: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float32]] | None:
        """The norm of each layer's gradient and the gradient of each unit, from what ``told`` holds after a step that
        was measured; None where none was since the last time."""
        if told[0] == self._seen:
            return None
        self._seen = float(told[0])
        count = len(self._layout.variables)
        squares = np.bincount(self._layout.owners, told[1 : 1 + count].astype(np.float64), len(self._layout.layers))
        return np.sqrt(squares), told[1 + count :]

    def remove(self) -> None:
        """Optimisers are as they were."""
        for optimizer in self._hooked:
            vars(optimizer).pop(_HOOK, None)

    def _measure(self, gradients: list[Any], variables: list[Any]) -> None:
        replicas, first = _replicas()
        if not first:
            return
        if self._always:
            self._write(gradients, variables, replicas)
        else:
            tf.cond(self._due > 0.5, lambda: self._write(gradients, variables, replicas), lambda: tf.constant(False))

    def _write(self, gradients: list[Any], variables: list[Any], replicas: int) -> Any:
        told = tf.convert_to_tensor(self.told)
        values, places = [tf.reshape(tf.math.floormod(told[0], _WRAP) + 1.0, [1])], [0]
        for gradient, variable in zip(gradients, variables, strict=True):
            at, units = self._places.get(id(variable)), self._units.get(id(variable))
            if gradient is None or at is None:
                continue
            found = _values(gradient)
            values.append(tf.reshape(2.0 * tf.nn.l2_loss(found) * float(replicas**2), [1]))
            places.append(at)
            if units is not None:
                values.append(found)
                places.extend(range(units, units + int(variable.shape[0])))
        indices = tf.constant(places, tf.int32)[:, tf.newaxis]
        self.told.assign(tf.tensor_scatter_nd_update(told, indices, tf.concat(values, axis=0)))
        return tf.constant(True)


def _hook(optimizer: Any, measure: Callable[[list[Any], list[Any]], None]) -> None:
    original = getattr(type(optimizer), _HOOK)

    def measured(grads: Any, trainable_variables: Any) -> Any:
        grads, trainable_variables = list(grads), list(trainable_variables)
        with contextlib.suppress(Exception):  # then there is no reading, and the step is what it would be
            measure(grads, trainable_variables)
        return original(optimizer, grads, trainable_variables)

    setattr(optimizer, _HOOK, measured)


def applied(model: keras.Model) -> list[Any]:
    """The optimisers that do the work: within one that scales the loss, the inner one."""
    return [getattr(optimizer, "inner_optimizer", optimizer) for optimizer in optimizers(model)]


def _replicas() -> tuple[int, bool]:
    """How many replicas there are, each of which has a part of the loss; and whether this is the first."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return 1, True
    return context.num_replicas_in_sync, tf.get_static_value(context.replica_id_in_sync_group) == 0


def _values(gradient: Any) -> Any:
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else tf.convert_to_tensor(gradient)
    values = tf.abs(values) if values.dtype.is_complex else values
    return tf.cast(values, tf.float32)
