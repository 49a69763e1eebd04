"""Look at some records, and at what the model says of itself. Reads from the data that it is given."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.utils.naming import to_snake_case

from mlflow_resilience.doctor.facts import Column, Expected, Head, Shape, Split

#: Losses that are functions, and take probabilities unless they are told otherwise.
_OF_PROBABILITIES = (
    keras.losses.binary_crossentropy,
    keras.losses.categorical_crossentropy,
    keras.losses.sparse_categorical_crossentropy,
)
_MOST = 4096  # records of arrays that are looked at, spread over all


def split_of(data: Any, name: str, batches: int, batch_size: int) -> Split:
    """What the first ``batches`` batches hold, or of arrays a sample. Raises what reading raises."""
    if isinstance(data, tf.data.Dataset):
        steps = float(data.cardinality())
        known = None if steps == tf.data.UNKNOWN_CARDINALITY else math.inf if steps < 0 else steps
        return of_batches(data.take(batches).as_numpy_iterator(), name, known, batches)
    if isinstance(data, keras.utils.PyDataset):
        count = data.num_batches
        read = (data[index] for index in range(min(batches, count if count is not None else batches)))
        return of_batches(read, name, None if count is None else float(count), batches)
    return _of_arrays(data, name, batch_size)


def expected_by(model: keras.Model) -> Expected:
    """What the model takes and gives, as far as it is built."""
    layers = frozenset(type(layer).__name__ for layer in model._flatten_layers(include_self=False))
    inputs = [(tensor.name, _record_shape(tensor.shape)) for tensor in getattr(model, "inputs", None) or ()]
    outputs = getattr(model, "outputs", None) or ()
    losses = _losses(model, len(outputs))
    names = getattr(model, "output_names", [])
    heads = (_head(*each) for each in itertools.zip_longest(names, outputs, losses) if None not in each[1:])
    return Expected(inputs=tuple(inputs), heads=tuple(heads), layers=layers)


def of_batches(read: Iterable[Any], name: str, steps: float | None, batches: int) -> Split:
    """What these batches hold; ``steps`` is how many there are in all, if that is known."""
    seen = [keras.utils.unpack_x_y_sample_weight(batch) for batch in itertools.islice(read, batches)]
    inputs, targets, weights = (
        tuple(_columns(title, [batch[at] for batch in seen])) for at, title in enumerate(("x", "y", "weight"))
    )
    sizes = [len(np.asarray(keras.tree.flatten(batch[0])[0])) for batch in seen]
    whole = steps is not None and steps <= len(seen)
    records = float(sum(sizes)) if whole else None if steps is None else steps * sizes[0] if sizes else 0.0
    return Split(
        name=name,
        inputs=inputs,
        targets=targets,
        weights=weights,
        steps=float(len(seen)) if steps is None and len(seen) < batches else steps,
        records=records if whole or steps == math.inf else None,
        batch_size=sizes[0] if sizes else None,
        whole=whole,
    )


def _of_arrays(data: Any, name: str, batch_size: int) -> Split:
    x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
    count = len(keras.tree.flatten(x)[0])
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST)).astype(int)) if count else np.arange(0)
    inputs, targets, weights = (
        tuple(_columns(title, [value], chosen)) for title, value in (("x", x), ("y", y), ("weight", weight))
    )
    return Split(
        name=name,
        inputs=inputs,
        targets=targets,
        weights=weights,
        steps=float(math.ceil(count / batch_size)),
        records=float(count),
        batch_size=batch_size,
        whole=count <= _MOST,
    )


def _columns(title: str, parts: list[Any], chosen: Any = None) -> Iterator[Column]:
    """The columns of a nested value, of all its ``parts`` put together."""
    flat = [keras.tree.flatten_with_path(part) for part in parts if part is not None]
    for at, (path, _) in enumerate(flat[0] if flat else ()):
        arrays = [_dense(part[at][1]) for part in flat]
        arrays = [array if chosen is None else array[chosen] for array in arrays]
        if len({array.shape[1:] for array in arrays}) == 1:
            name = title + "".join(f"[{key!r}]" for key in path)
            yield Column(name=name, values=np.concatenate(arrays))


def _dense(value: Any) -> np.ndarray:
    if isinstance(value, tf.SparseTensor | tf.compat.v1.SparseTensorValue):
        value = tf.sparse.to_dense(tf.SparseTensor(value.indices, value.values, value.dense_shape))
    return np.asarray(value)


def _head(name: str | None, output: Any, loss: Any) -> Head:
    layer = output._keras_history.operation
    activation = getattr(layer, "activation", None)
    named = getattr(activation, "__name__", type(layer).__name__.lower())
    return Head(
        name=name or layer.name,
        shape=_record_shape(output.shape),
        activation=named,
        loss=to_snake_case(getattr(loss, "__name__", type(loss).__name__)),
        from_logits=False if loss in _OF_PROBABILITIES else getattr(loss, "from_logits", None),
    )


def _losses(model: keras.Model, outputs: int) -> list[Any]:
    """The loss of each output, in order; empty where the model computes its own."""
    given = model.loss
    names = getattr(model, "output_names", [])
    if isinstance(given, dict):
        given = [given.get(name) for name in names]
    listed = list(given) if isinstance(given, list | tuple) else [given] * outputs
    found = [keras.losses.get(each) for each in listed]
    return found if len(found) == outputs else []


def _record_shape(shape: Iterable[Any]) -> Shape:
    return tuple(shape)[1:]
