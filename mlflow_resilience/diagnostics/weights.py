"""Samples of a model's weights.

Taken outside of the step's graph, so that the step is the same with it and without; a sample, so that it costs the same
for a large layer as for a middling one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mlflow_resilience.diagnostics import sampling
from mlflow_resilience.diagnostics.layout import Layout
from mlflow_resilience.diagnostics.trace import Floats
from mlflow_resilience.training.state import value_of


class Sampler:
    """Takes samples of all layers' weights, as one vector, and the values of other variables: all in one call, since a
    call is what costs."""

    def __init__(self, layout: Layout, *beside: Any) -> None:
        self._counts = [sum(sampling.count(_shape(each)) for each in layer) for layer in layout.weighed]
        self.take = _compiled([each for layer in layout.weighed for each in layer], beside)

    def statistics(self, before: Any, after: Any, steps: int) -> Floats:
        """As :func:`sampling.statistics`, of two samples."""
        return sampling.statistics(before, after, self._counts, steps)


def _compiled(variables: list[Any], beside: tuple[Any, ...]) -> Callable[[], tuple[Any, list[Any]]]:
    @tf.function(autograph=False)
    def take() -> tuple[Any, list[Any]]:
        sample = tf.concat([_sample(variable) for variable in variables], axis=0)
        return sample, [tf.identity(value_of(each)) for each in beside]

    return take


def _sample(variable: Any) -> Any:
    flat = tf.reshape(value_of(variable), [-1])
    flat = tf.math.real(flat) if flat.dtype.is_complex else flat
    return tf.cast(flat[:: sampling.stride(_shape(variable))], tf.float32)


def _shape(variable: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in variable.shape)
