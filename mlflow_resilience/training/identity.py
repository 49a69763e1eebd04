"""What makes two jobs the same job: the parts of the resume key that Keras knows."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.training.state import optimizers

_SAMPLE = 4096  # array elements that a digest looks at


def resume_key(model: keras.Model, data: dict[str, Any], validation: dict[str, Any] | None, **more: Any) -> str:
    """A digest of the architecture, the optimiser's class, the data, and whatever else is given. Reads no data."""
    facts = {
        "variables": [[list(variable.shape), str(variable.dtype)] for variable in model.weights],
        "layers": [type(layer).__name__ for layer in model._flatten_layers()],
        "optimizers": [type(optimizer).__name__ for optimizer in optimizers(model)],
        "training": _describe(data),
        "validation": _describe(validation) if validation else None,
        **more,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _describe(arguments: dict[str, Any]) -> dict[str, Any]:
    columns = {name: arguments[name] for name in ("x", "y", "sample_weight") if arguments.get(name) is not None}
    described: dict[str, Any] = {name: _describe_column(value) for name, value in columns.items()}
    described.update({name: arguments.get(name) for name in ("batch_size", "shuffle", "steps_per_epoch")})
    return described


def _describe_column(value: Any) -> Any:
    if isinstance(value, tf.data.Dataset):
        return {"spec": str(value.element_spec), "cardinality": int(value.cardinality())}
    if isinstance(value, keras.utils.PyDataset):
        return {"class": type(value).__name__, "batches": value.num_batches}
    return [_describe_array(array) for array in tf.nest.flatten(value)]


def _describe_array(array: Any) -> Any:
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    if shape is None or dtype is None:
        return type(array).__name__
    return [list(shape), str(dtype), _sample_digest(array)]


def _sample_digest(array: Any) -> str:
    """A digest of elements spread over the whole array, first and last included."""
    if not isinstance(array, np.ndarray | tf.Tensor):
        return ""
    flat = np.asarray(array).reshape(-1)
    if flat.size > _SAMPLE:
        flat = flat[np.linspace(0, flat.size - 1, _SAMPLE).astype(np.int64)]
    return hashlib.sha256(np.ascontiguousarray(flat).tobytes()).hexdigest()[:16]
