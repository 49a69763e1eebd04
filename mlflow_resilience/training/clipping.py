"""Gradients brought down to a norm that recovery has set; what the optimiser clips itself comes after it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def clipped(gradients: list[Any], norm: Any, bound: float) -> list[Any]:
    """``gradients``, whose norm is ``norm``, brought down to ``bound``. A norm that is not finite makes them NaN where
    they are not finite themselves: nothing is hidden."""
    factor = bound / tf.maximum(norm, bound)
    return [None if gradient is None else _times(gradient, factor) for gradient in gradients]


def _times(gradient: Any, factor: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_times(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)
