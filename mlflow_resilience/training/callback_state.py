"""The state of Keras callbacks: patience counters, best values, positions in files."""

from __future__ import annotations

import functools
import logging
import os
import re
import types
from collections.abc import Mapping, Sequence, Set
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
    types.MethodDescriptorType,
    np.ufunc,
    types.ModuleType,
    type,
    functools.partial,
    PurePath,
    re.Pattern,
    logging.Logger,
)

#: What ``on_train_begin`` has decided for this very training.
_DECIDED: Mapping[type, Set[str]] = {keras.callbacks.CSVLogger: frozenset({"writer", "append", "append_header"})}
_NOTHING: Mapping[type, Set[str]] = types.MappingProxyType({})

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
        """Give the callbacks their state back, by class and order. Returns a line for each that has none."""
        problems = []
        self.reset(but=_DECIDED)
        waiting = list(states)
        for callback in self.callbacks:
            name = type(callback).__name__
            state = next((state for state in waiting if state["class"] == name), None)
            if state is None:
                problems.append(f"the callback {name} has no state in this checkpoint: it begins anew")
                continue
            waiting.remove(state)
            _give(callback, unpack(state["values"], arrays))
        return problems

    def reset(self, *, but: Mapping[type, Set[str]] = _NOTHING) -> None:
        """Make the callbacks as the script made them, all ``but`` some attributes of some classes.

        What is no data now is left too: a file that ``on_train_begin`` has opened, say.
        """
        for callback, given, arrays in zip(self.callbacks, self._given, self._arrays, strict=True):
            left = {name for kind, names in but.items() if isinstance(callback, kind) for name in names}
            left |= {name for name, value in vars(callback).items() if not _storable(value)}
            values = given if has_protocol(callback) else {key: given[key] for key in given.keys() - left}
            _give(callback, unpack(values, arrays))

    def before_begin(self, states: list[dict[str, Any]]) -> None:
        """What a file-writing callback needs before its ``on_train_begin``: on a resume it appends where it was."""
        loggers = [callback for callback in self.callbacks if isinstance(callback, keras.callbacks.CSVLogger)]
        lengths = [state["file_length"] for state in states if "file_length" in state]
        for number, logger in enumerate(loggers):
            if logger.csv_file is not None:  # an attempt that failed has left it open
                logger.csv_file.close()
            logger.csv_file = logger.writer = None
            if number < len(lengths):
                logger.append = True
                if os.path.exists(logger.filename) and os.path.getsize(logger.filename) > lengths[number]:
                    os.truncate(logger.filename, lengths[number])

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
            if not callback.csv_file.closed:
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
