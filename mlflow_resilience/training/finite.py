"""Where in a model numbers stop being finite: layer by layer forwards, variable by variable backwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.training.state import finite


def all_finite(value: Any) -> bool:
    """Whether every number in it is finite; what is no number counts as finite."""
    return all(finite(each) for each in tf.nest.flatten(value) if hasattr(each, "dtype") and each.dtype != tf.string)


def first_output(model: keras.Model, inputs: Any) -> str | None:
    """The first layer, in the order in which they are called, whose output is not finite; None where all are.

    Whatever the model raises comes out as it is, with the layer that was at work as a note.
    """
    found: list[str] = []
    entered: list[str] = []
    with contextlib.ExitStack() as stack:
        for layer in model._flatten_layers(include_self=False):
            if not isinstance(layer, keras.Model):
                stack.enter_context(_looked_at(layer, entered, found))
        try:
            model(inputs, training=True)
        except Exception as error:
            error.add_note(f"in layer {entered[-1]}" if entered else "before the first layer")
            raise
    return found[0] if found else None


def first_gradient(model: keras.Model, batch: Any) -> str | None:
    """The first weight, in the model's order, whose gradient is not finite; None where all are."""
    x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True), weight, training=True)
    weights = model.trainable_weights
    gradients = tape.gradient(loss, [each.value for each in weights])
    for each, gradient in zip(weights, gradients, strict=True):
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        if values is not None and not finite(values):
            return str(each.path)
    return None


@contextlib.contextmanager
def _looked_at(layer: Any, entered: list[str], found: list[str]) -> Iterator[None]:
    """While inside, each call of the layer is noted, and found wanting where its output is not finite."""
    original: Callable[..., Any] = layer.call

    def call(*args: Any, **kwargs: Any) -> Any:
        entered.append(layer.name)
        output = original(*args, **kwargs)
        if not all_finite(output):
            found.append(layer.name)
        return output

    vars(layer)["call"] = call  # not by assignment, which Keras would track
    try:
        yield
    finally:
        vars(layer).pop("call", None)
