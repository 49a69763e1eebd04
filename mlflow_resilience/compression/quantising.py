"""Weights as eight-bit integers: by Keras, and in a LiteRT file."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.compression.copying import bare
from mlflow_resilience.errors import UsageError

REPRESENTATIVE = 100  # records from which the ranges of activations are taken


def quantised(model: keras.Model) -> tuple[keras.Model, str]:
    """A copy with the kernels that Keras can quantise in int8, and a note of which; UsageError where there are none."""
    made = bare(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.quantize("int8")
    weighted = [layer for layer in made._flatten_layers(include_self=False) if layer._trainable_variables or _is(layer)]
    done = [layer.name for layer in weighted if _is(layer)]
    if not done:
        raise UsageError("int8: Keras quantises Dense, EinsumDense and Embedding layers, and the model has none")
    left = [layer.name for layer in weighted if not _is(layer)]
    return made, f"int8 in {', '.join(done)}" + (f", and not in {', '.join(left)}" if left else "")


def litert(model: keras.Model, inputs: Iterator[Any]) -> bytes:
    """A LiteRT file with weights and activations in int8 where it can, its inputs and outputs as before. ``inputs`` are
    batches like those it will get. Raises UsageError where the converter refuses."""
    records = [record for batch in islice(inputs, REPRESENTATIVE) for record in _one_by_one(batch)][:REPRESENTATIVE]
    with _quiet():
        converter = tf.lite.TFLiteConverter.from_keras_model(bare(model))
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: iter(records)
        try:
            made: bytes = converter.convert()
        except Exception as error:  # of many classes, the converter's own among them
            told = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            raise UsageError(f"litert: the converter refuses the model: {told}") from error
    return made


def runner(made: bytes) -> Any:
    """A function from a batch of inputs to outputs, record by record. Raises UsageError where it cannot be run."""
    with _quiet():
        interpreter = tf.lite.Interpreter(model_content=made)
        interpreter.allocate_tensors()
    given, told = interpreter.get_input_details(), interpreter.get_output_details()
    if len(given) != 1 or len(told) != 1:
        raise UsageError(f"litert: a model of one input and one output can be run, not {len(given)} and {len(told)}")

    def run(batch: Any) -> Any:
        found = []
        for record in np.asarray(batch):
            interpreter.set_tensor(given[0]["index"], record[None].astype(given[0]["dtype"]))
            interpreter.invoke()
            found.append(interpreter.get_tensor(told[0]["index"])[0])
        return np.stack(found)

    return run


def aware_training() -> str:
    """Why there is no quantisation-aware training here."""
    try:
        toolkit = f"tensorflow-model-optimization {version('tensorflow-model-optimization')} is installed, and"
    except PackageNotFoundError:
        toolkit = "its library, tensorflow-model-optimization, is not installed, and"
    return f"qat: not made: {toolkit} it refuses models of Keras 3, as this is; int8 and litert quantise after training"


def _is(layer: Any) -> bool:
    return str(getattr(layer.dtype_policy, "name", "")).startswith("int8")


def _one_by_one(batch: Any) -> list[list[Any]]:
    columns = [np.asarray(each) for each in tf.nest.flatten(batch)]
    return [[column[at : at + 1].astype("float32") for column in columns] for at in range(len(columns[0]))]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The converter speaks of each of its steps, on the standard output too."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
