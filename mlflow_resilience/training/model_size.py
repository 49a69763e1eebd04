"""How large a model is, for whoever has to find out where the memory went: shapes and bytes, nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.training import build, state

_MOST = 8  # rows of each table

Row = tuple[str, str, int]


def of_model(model: keras.Model, element_spec: Any, batch_size: int | None) -> dict[str, Any]:
    """As plain JSON values: bytes of weights and optimiser, the largest variables, an estimate of what one record's
    activations take (0 where the model does not say its layers' shapes), and a batch's specs."""
    weights, slots = _rows(model, "model"), _rows(model, "optimizer")
    layers = [_layer(layer) for layer in model._flatten_layers(include_self=False)]
    outputs = [row for row in layers if row is not None]
    return {
        "parameters_bytes": sum(size for *_, size in weights),
        "optimizer_bytes": sum(size for *_, size in slots),
        "activation_bytes": sum(size for *_, size in outputs),
        "largest": _largest([*weights, *slots]),
        "layers": _largest(outputs),
        "batch": [(spec.dtype.name, str(spec.shape)) for spec in _specs(element_spec)],
        "batch_size": batch_size or next((spec.shape[0] for spec in _specs(element_spec) if spec.shape.rank), None),
    }


def _rows(model: keras.Model, group: str) -> list[Row]:
    return [
        (name.split("/", 2)[-1], str(tuple(variable.shape)), _bytes(variable.shape, variable.dtype))
        for name, variable in state.named(model, (group,))
    ]


def _layer(layer: Any) -> Row | None:
    """Its output for one record; None where it has not one, or is made of other layers."""
    if isinstance(layer, keras.Model | keras.layers.InputLayer):
        return None
    try:
        outputs = tf.nest.flatten(layer.output)
        shapes = [tuple(output.shape[1:]) for output in outputs]
        size = sum(_bytes(shape, layer.compute_dtype) for shape in shapes)
    except (AttributeError, ValueError, TypeError):
        return None
    return layer.name, ", ".join(map(str, shapes)), size


def _bytes(shape: Iterable[Any], dtype: Any) -> int:
    return math.prod(int(dimension) for dimension in shape) * int(tf.as_dtype(dtype).size)


def _largest(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row[2])[:_MOST]


def _specs(element_spec: Any) -> list[tf.TensorSpec]:
    return [spec for spec in tf.nest.flatten(element_spec) if isinstance(spec, tf.TensorSpec)]


class ModelSize:
    """A listener to the journal: once the model is whole, ``tell`` is called with its sizes."""

    def __init__(self, model: keras.Model, training: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
        self._model, self._training, self._tell = model, training, tell
        self._told = False

    def __call__(self, entry: dict[str, Any]) -> None:
        """One more entry: something has happened, and the model may be whole by now."""
        if self._told or not self._model.built:
            return
        if not all(optimizer.built for optimizer in state.optimizers(self._model)):
            return
        self._told = True
        self._tell(of_model(self._model, build.element_spec(self._training), self._training.get("batch_size")))
