"""One call of `fit`, taken apart: what goes to Keras's data adapter, and what to `fit` itself."""

from __future__ import annotations

import inspect
import math
import types
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils

from mlflow_resilience.errors import UsageError
from mlflow_resilience.training import randomness
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.py_dataset import given as given_data

_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(keras.Model.fit).parameters.items()}
_DEFAULTS.pop("self")
_LEFT_OUT = (keras.callbacks.BackupAndRestore,)  # restores weights and epoch after us, and not to the same place


def plan_of(model: keras.Model, given: dict[str, Any], first_step: int = 0) -> Plan:
    """The plan for a call of `fit` with the arguments ``given``. Reads no data and draws no random number.

    Raises UsageError for arguments that `fit` does not have, and for data that can be read only once.
    """
    unknown = set(given) - set(_DEFAULTS)
    if unknown:
        raise UsageError(f"fit has no argument {', '.join(sorted(unknown))}")
    call = {**_DEFAULTS, **given}
    _refuse_one_shot(call["x"], "x")
    origin = randomness.capture()
    x, y, weight = call["x"], call["y"], call["sample_weight"]
    validation = call["validation_data"]
    if call["validation_split"] and validation is None:
        (x, y, weight), validation = array_slicing.train_validation_split(
            (x, y, weight), validation_split=call["validation_split"]
        )
    callbacks = call["callbacks"]
    listed = list(callbacks.callbacks) if hasattr(callbacks, "callbacks") else keras.tree.flatten(callbacks or [])
    histories = [callback for callback in listed if isinstance(callback, keras.callbacks.History)]
    held_out = _validation(validation, call)
    training = {
        "x": x,
        "y": y,
        "sample_weight": weight,
        "batch_size": call["batch_size"],
        "steps_per_epoch": call["steps_per_epoch"],
        "shuffle": call["shuffle"],
        "class_weight": call["class_weight"],
    }
    return Plan(
        model=model,
        arguments={name: call[name] for name in ("verbose", "steps_per_epoch", "validation_steps", "validation_freq")},
        training=training,
        validation=held_out,
        given=given_data(training),
        given_validation=given_data(held_out),
        callbacks=[callback for callback in listed if not isinstance(callback, (*_LEFT_OUT, keras.callbacks.History))],
        left_out=[type(callback).__name__ for callback in listed if isinstance(callback, _LEFT_OUT)],
        history=histories[0] if histories else keras.callbacks.History(),
        epochs=call["epochs"],
        initial_epoch=getattr(model, "_initial_epoch", None) or call["initial_epoch"],
        origin=origin,
        first_step=first_step,
    )


def steps_per_epoch(plan: Plan) -> int | None:
    """How many batches an epoch has; None where only training will tell. Reads no data."""
    return batches_of(plan.training)


def batches_of(training: dict[str, Any]) -> int | None:
    """The same for the arguments of training data alone."""
    data, asked = training["x"], training.get("steps_per_epoch")
    if asked:
        return int(asked)
    if isinstance(data, tf.data.Dataset):
        cardinality = int(data.cardinality())
        return cardinality if cardinality > 0 else None
    if isinstance(data, keras.utils.PyDataset):
        return data.num_batches
    first = keras.tree.flatten(data)[0]
    return math.ceil(len(first) / (training.get("batch_size") or 32)) if hasattr(first, "__len__") else None


def _validation(data: Any, call: dict[str, Any]) -> dict[str, Any] | None:
    if data is None:
        return None
    x, y, weight = data_adapter_utils.unpack_x_y_sample_weight(data)
    _refuse_one_shot(x, "validation_data")
    return {
        "x": x,
        "y": y,
        "sample_weight": weight,
        "batch_size": call["validation_batch_size"] or call["batch_size"],
        "steps_per_epoch": call["validation_steps"],
        "shuffle": False,
    }


def _refuse_one_shot(data: Any, name: str) -> None:
    if isinstance(data, types.GeneratorType):
        raise UsageError(
            f"{name} is a generator, which can be read only once, so that training could not be resumed. Give "
            "tf.data.Dataset.from_generator(lambda: ..., output_signature=...) or a keras.utils.PyDataset instead."
        )
