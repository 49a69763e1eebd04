"""Make model, optimiser and metrics whole before training, without reading data or drawing a random number."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.training import randomness


def build(model: keras.Model, element_spec: Any) -> bool:
    """Create all variables that the first step would create, from the data's specs alone.

    The variables get the values that they would have got; what of Python's random numbers goes into them stays drawn.
    False where the model does not allow it (its first step then creates them, and there is nothing to go back to
    before it).
    """
    with randomness.untouched(but=("python",)), model.distribute_strategy.scope():
        if not (model.built and _metrics_built(model)) and element_spec is not None:
            with contextlib.suppress(Exception):
                model._symbolic_build(data_batch=tf.nest.map_structure(blank, element_spec))
        if not model.built:
            return False
        if type(model).train_step is not keras.Model.train_step:
            return model in _traced or (element_spec is not None and _trace(model, element_spec))
        if model.optimizer is not None and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
    return True


_traced: weakref.WeakSet[Any] = weakref.WeakSet()


def _trace(model: keras.Model, element_spec: Any) -> bool:
    """Let a step of the model's own say which variables its optimisers need; nothing is computed."""
    if model.run_eagerly:
        return False
    try:
        tf.function(model.train_step, autograph=False).get_concrete_function(element_spec)
    except Exception:
        return False
    _traced.add(model)
    return True


def element_spec(arguments: dict[str, Any]) -> Any:
    """The specs of a batch, from the arguments of `fit`'s data; None where only reading would tell."""
    x, y, weight = arguments["x"], arguments.get("y"), arguments.get("sample_weight")
    if isinstance(x, tf.data.Dataset):
        return x.element_spec
    try:
        columns = [value for value in (x, y, weight) if value is not None]
        return tuple(tf.nest.map_structure(_batch_spec, column) for column in columns)
    except (AttributeError, TypeError, ValueError):
        return None


def _batch_spec(value: Any) -> tf.TensorSpec:
    dtype = tf.as_dtype(value.dtype)
    if dtype == tf.float64:
        dtype = tf.as_dtype(keras.config.floatx())
    return tf.TensorSpec((None, *value.shape[1:]), dtype)


def blank(spec: tf.TensorSpec) -> Any:
    """An array of zeros that fits ``spec``, with 1 for each dimension that is open."""
    shape = [1 if dimension is None else dimension for dimension in spec.shape]
    return np.zeros(shape, dtype=spec.dtype.as_numpy_dtype)


def _metrics_built(model: keras.Model) -> bool:
    compiled = getattr(model, "_compile_metrics", None)
    loss = getattr(model, "_compile_loss", None)
    return (compiled is None or compiled.built) and (loss is None or loss.built)
