"""The state of Keras callbacks: patience counters, best values, positions in files."""

from __future__ import annotations

import functools
import logging
import os
import re
import types
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import keras
import numpy as np

from mlflow_resilience.training.packing import NotStorable, pack, unpack

#: Attributes that Keras sets for every callback; they are no state of its own.
_KERAS_OWN = frozenset({"_model", "model", "params", "validation_data"})

#: What is a setting of a callback and not its state; the script makes it anew.
_SETTINGS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    type,
    functools.partial,
    PurePath,
    re.Pattern,
    logging.Logger,
)

_Values = dict[str, Any]  # packed attributes by name


class CallbackStates:
    """The callbacks of one `fit`, and how the script made them.

    What a callback has not changed since then is not stored: a resume takes it from the script, so that a setting
    which was changed there holds.
    """

    def __init__(self, callbacks: Sequence[keras.callbacks.Callback]) -> None:
        self.callbacks = list(callbacks)
        self._arrays: list[dict[str, np.ndarray]] = [{} for _ in self.callbacks]
        self._given = [
            _attributes(callback, arrays, "given")
            for callback, arrays in zip(self.callbacks, self._arrays, strict=True)
        ]

    def capture(self, arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
        """The state of each callback, in order. Arrays go into ``arrays``."""
        return [self._capture(index, arrays) for index in range(len(self.callbacks))]

    def restore(self, states: list[dict[str, Any]], arrays: dict[str, np.ndarray]) -> list[str]:
        """Give the callbacks their state back, by position. Returns a line for each that could not be given."""
        problems = []
        self.reset()
        for index, callback in enumerate(self.callbacks):
            state = states[index] if index < len(states) else None
            if state is None or state["class"] != type(callback).__name__:
                problems.append(f"callback {index} ({type(callback).__name__}) has no state in this checkpoint")
            else:
                _give(callback, unpack(state["values"], arrays))
        return problems

    def reset(self) -> None:
        """Make the callbacks as the script made them."""
        for callback, given, arrays in zip(self.callbacks, self._given, self._arrays, strict=True):
            _give(callback, unpack(given, arrays))

    def before_begin(self, states: list[dict[str, Any]]) -> None:
        """What a file-writing callback needs before its ``on_train_begin`` on a resume: to append where it was."""
        for callback, state in zip(self.callbacks, states, strict=False):
            length = state.get("file_length")
            if isinstance(callback, keras.callbacks.CSVLogger) and length is not None:
                callback.append = True
                if os.path.exists(callback.filename) and os.path.getsize(callback.filename) > length:
                    os.truncate(callback.filename, length)

    def _capture(self, index: int, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        callback, name = self.callbacks[index], f"callback/{index}"
        state: dict[str, Any] = {"class": type(callback).__name__}
        found: dict[str, np.ndarray] = {}
        values = _attributes(callback, found, name)
        if not has_protocol(callback):
            values = {key: value for key, value in values.items() if not self._as_given(index, key, value, found)}
        state["values"] = values
        arrays.update({key: array for key, array in found.items() if not _dropped(key, name, values, callback)})
        if isinstance(callback, keras.callbacks.CSVLogger) and getattr(callback, "csv_file", None):
            callback.csv_file.flush()
            state["file_length"] = os.path.getsize(callback.filename)
            values.pop("append_header", None)
        return state

    def _as_given(self, index: int, key: str, value: Any, arrays: dict[str, np.ndarray]) -> bool:
        given = self._given[index]
        return key in given and _equal(unpack(value, arrays), unpack(given[key], self._arrays[index]))


def unstorable(callbacks: Sequence[keras.callbacks.Callback]) -> list[str]:
    """``Class.attribute`` of all that cannot be stored; callbacks of Keras itself are known and left out."""
    return [
        f"{type(callback).__name__}.{name}"
        for callback in callbacks
        if not type(callback).__module__.startswith("keras.src.") and not has_protocol(callback)
        for name, value in vars(callback).items()
        if name not in _KERAS_OWN and not isinstance(value, _SETTINGS) and not _storable(value)
    ]


def has_protocol(callback: Any) -> bool:
    """Whether the callback stores its state itself, by ``get_state`` and ``set_state``."""
    return callable(getattr(callback, "get_state", None)) and callable(getattr(callback, "set_state", None))


def _attributes(callback: keras.callbacks.Callback, arrays: dict[str, np.ndarray], name: str) -> _Values:
    if has_protocol(callback):
        packed: _Values = pack(_as_data(callback.get_state()), arrays, name)
        return packed
    values = {}
    for key, value in vars(callback).items():
        if key in _KERAS_OWN:
            continue
        try:
            values[key] = pack(_as_data(value), arrays, f"{name}/{key}")
        except NotStorable:
            continue  # named before training by `unstorable`
    return values


def _give(callback: keras.callbacks.Callback, values: Any) -> None:
    if has_protocol(callback):
        callback.set_state(values)
        return
    for key, value in values.items():
        setattr(callback, key, value)


def _dropped(key: str, name: str, values: _Values, callback: keras.callbacks.Callback) -> bool:
    """Whether the array under ``key`` belongs to an attribute that is not stored."""
    return not has_protocol(callback) and key.removeprefix(f"{name}/").split("/")[0] not in values


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(_equal(one[key], other[key]) for key in one)
    return bool(one == other)


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
