"""What each step tells of its health, computed within its graph: the global norm of its gradients, and its own loss.

Keras's `loss` is a running mean over the epoch, in which the loss of one step drowns. The loss trackers are read before
and after the step; their difference is the step's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.training.replicas import is_first_replica, summed
from mlflow_resilience.training.state import optimizers, value_of

_NONE = -1.0  # in the place of a sum of squares: no optimiser was applied


@dataclass(frozen=True, kw_only=True)
class Sign:
    """Of one step: ``norm`` is None where nothing was updated, ``loss`` where no tracker tells it."""

    step: int
    norm: float | None
    loss: float | None


class Signs:
    """The signs of the steps since they were last taken: one small tensor a step, read when Keras reads its logs.

    The norm is that of all gradients that optimisers are applied to in the step, before clipping and without the factor
    of a scaled loss; in float32, so that one beyond 1.8e19 is infinite. With several replicas it is that
    of the sum of their gradients.
    """

    def __init__(self, model: keras.Model) -> None:
        self._optimizers = optimizers(model)
        self._trackers = [
            each for each in model.metrics if each.name == "loss" and isinstance(each, keras.metrics.Mean)
        ]
        self._squares = tf.Variable(_NONE, dtype=tf.float32, trainable=False, name="gradient_squares")
        self._kept: list[tuple[int, Any]] = []

    def beside(self, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``step``, returning its signs beside what it returns."""

        def signed(data: Any) -> Any:
            self._squares.assign(_NONE)
            before = self._tracked()
            results = step(data)
            return results, tf.concat([[tf.identity(self._squares)], self._tracked() - before], axis=0)

        return signed

    def measure(self, optimizer: Any, gradients: list[Any]) -> Any:
        """``optimizer`` is about to be applied to ``gradients``; gives their squared norm, at the user's own loss."""
        squares = tf.add_n([_squares(each) for each in summed(gradients)]) / tf.square(_scale(optimizer))
        if is_first_replica():  # all have the same sum, and one variable to note it in
            self._squares.assign(tf.where(self._squares < 0.0, squares, self._squares + squares))
        return squares

    def keep(self, step: int, told: Any) -> None:
        """The global step ``step`` is done, and told this."""
        self._kept.append((step, told))

    def take(self) -> list[Sign]:
        """The signs that were kept, each once."""
        kept, self._kept = self._kept, []
        return [_sign(step, *map(float, np.asarray(told))) for step, told in kept]

    def is_usual(self, norm: float) -> bool:
        """Whether the optimisers deal with this norm, which is not finite: by an `apply` of their own, as the scaler of
        a loss, which skips such a step; or by clipping each value, which makes infinity finite."""
        for optimizer in self._optimizers:
            if type(optimizer).apply is not keras.optimizers.Optimizer.apply:
                return True
            if math.isinf(norm) and getattr(optimizer, "clipvalue", None) is not None:
                return True
        return False

    def _tracked(self) -> Any:
        """The sum of losses and their weight so far."""
        values = [[value_of(tracker.total), value_of(tracker.count)] for tracker in self._trackers]
        return tf.add_n([tf.cast(tf.stack(each), tf.float32) for each in values]) if values else tf.zeros(2)


def _sign(step: int, squares: float, total: float, weight: float) -> Sign:
    norm = None if squares < 0.0 else math.sqrt(squares)
    return Sign(step=step, norm=norm, loss=total / weight if weight else None)


def _squares(gradient: Any) -> Any:
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else tf.convert_to_tensor(gradient)
    values = tf.abs(values) if values.dtype.is_complex else values
    return 2.0 * tf.nn.l2_loss(tf.cast(values, tf.float32))


def _scale(optimizer: Any) -> Any:
    """The factor by which the gradients are larger than those of the loss."""
    dynamic = getattr(optimizer, "dynamic_scale", None)
    if dynamic is not None:
        return tf.cast(value_of(dynamic), tf.float32)
    return tf.constant(getattr(optimizer, "loss_scale_factor", None) or 1.0, tf.float32)
