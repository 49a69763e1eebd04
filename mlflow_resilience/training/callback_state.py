"""The state of Keras callbacks: patience counters, best values, positions in files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from mlflow_resilience.training.packing import NotStorable, pack, unpack

#: Attributes that Keras sets for every callback; they are no state of its own.
_KERAS_OWN = frozenset({"_model", "model", "params", "validation_data"})


def capture(callbacks: Sequence[keras.callbacks.Callback], arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """The state of each callback, in order. Arrays go into ``arrays``."""
    return [_capture_one(callback, arrays, f"callback/{index}") for index, callback in enumerate(callbacks)]


def restore(
    callbacks: Sequence[keras.callbacks.Callback], states: list[dict[str, Any]], arrays: dict[str, np.ndarray]
) -> list[str]:
    """Give the callbacks their state back, by position. Returns a line for each that could not be given."""
    problems = []
    for index, callback in enumerate(callbacks):
        state = states[index] if index < len(states) else None
        if state is None or state["class"] != type(callback).__name__:
            problems.append(f"callback {index} ({type(callback).__name__}) has no state in this checkpoint")
            continue
        _restore_one(callback, unpack(state["values"], arrays))
    return problems


def unstorable(callbacks: Sequence[keras.callbacks.Callback]) -> list[str]:
    """``Class.attribute`` of all that cannot be stored; callbacks of Keras itself are known and left out."""
    names = []
    for callback in callbacks:
        if type(callback).__module__.startswith("keras.src.") or _has_own_protocol(callback):
            continue
        for name, value in vars(callback).items():
            if name not in _KERAS_OWN and not _storable(value):
                names.append(f"{type(callback).__name__}.{name}")
    return names


def before_begin(callbacks: Sequence[keras.callbacks.Callback], states: list[dict[str, Any]]) -> None:
    """What a file-writing callback needs before its ``on_train_begin`` on a resume: to append at the stored length."""
    for callback, state in zip(callbacks, states, strict=False):
        length = state.get("file_length")
        if isinstance(callback, keras.callbacks.CSVLogger) and length is not None:
            callback.append = True
            if os.path.exists(callback.filename) and os.path.getsize(callback.filename) > length:
                os.truncate(callback.filename, length)


def _capture_one(callback: keras.callbacks.Callback, arrays: dict[str, np.ndarray], name: str) -> dict[str, Any]:
    state: dict[str, Any] = {"class": type(callback).__name__}
    if _has_own_protocol(callback):
        state["values"] = pack(callback.get_state(), arrays, name)
        return state
    values = {}
    for key, value in vars(callback).items():
        if key in _KERAS_OWN:
            continue
        try:
            values[key] = pack(_as_data(value), arrays, f"{name}/{key}")
        except NotStorable:
            continue  # named before training by `unstorable`
    state["values"] = values
    if isinstance(callback, keras.callbacks.CSVLogger) and getattr(callback, "csv_file", None):
        callback.csv_file.flush()
        state["file_length"] = os.path.getsize(callback.filename)
        values.pop("append_header", None)
    return state


def _restore_one(callback: keras.callbacks.Callback, values: Any) -> None:
    if _has_own_protocol(callback):
        callback.set_state(values)
        return
    for key, value in values.items():
        setattr(callback, key, value)


def _has_own_protocol(callback: Any) -> bool:
    return callable(getattr(callback, "get_state", None)) and callable(getattr(callback, "set_state", None))


def _as_data(value: Any) -> Any:
    """Tensors and variables as the arrays that they hold."""
    if hasattr(value, "numpy") and hasattr(value, "dtype"):
        return np.asarray(value)
    if type(value) in (list, tuple):
        return type(value)(_as_data(item) for item in value)
    if type(value) is dict:
        return {key: _as_data(item) for key, item in value.items()}
    return value


def _storable(value: Any) -> bool:
    try:
        pack(_as_data(value), {}, "value")
    except NotStorable:
        return False
    return True
