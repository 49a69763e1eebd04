"""Nested Python values as JSON and named arrays: no code-bearing format is written or read."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

#: Keys that mark what JSON cannot say by itself.
_ARRAY, _TUPLE, _SCALAR, _PAIRS, _FUNCTION = "__array__", "__tuple__", "__scalar__", "__pairs__", "__function__"
_MARKS = frozenset({_ARRAY, _TUPLE, _SCALAR, _PAIRS, _FUNCTION})


class NotStorable(TypeError):
    """A value that is neither data nor made of data (a function, a file, an object of a class)."""


def pack(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    """``value`` as JSON values; arrays in it go into ``arrays`` under keys that begin with ``name``.

    Raises NotStorable for anything that is not plain data.
    """
    if value is None or (isinstance(value, bool | int | float | str) and type(value) in _PLAIN):
        return value
    if isinstance(value, np.generic):
        return {_SCALAR: [value.dtype.str, value.item()]} if value.dtype.kind in "biuf" else _refuse(value, name)
    if callable(value) and _known_function(value) is not None:
        return {_FUNCTION: _known_function(value)}  # Keras's callbacks choose their comparison once, and keep it
    if isinstance(value, np.ndarray):
        return _pack_array(value, arrays, name)
    if type(value) is list:
        return [pack(item, arrays, f"{name}/{index}") for index, item in enumerate(value)]
    if type(value) is tuple:
        return {_TUPLE: [pack(item, arrays, f"{name}/{index}") for index, item in enumerate(value)]}
    if type(value) is dict:
        return _pack_dict(value, arrays, name)
    return _refuse(value, name)


_COMPARISONS = ("less", "less_equal", "greater", "greater_equal")
_PLAIN = (bool, int, float, str)


def unpack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The inverse of :func:`pack`."""
    if isinstance(value, list):
        return [unpack(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY in value:
        return np.array(arrays[value[_ARRAY]])
    if _FUNCTION in value:
        return _function(value[_FUNCTION])
    if _TUPLE in value:
        return tuple(unpack(item, arrays) for item in value[_TUPLE])
    if _SCALAR in value:
        dtype, item = value[_SCALAR]
        return np.dtype(dtype).type(item)
    if _PAIRS in value:
        return {unpack(key, arrays): unpack(item, arrays) for key, item in value[_PAIRS]}
    return {key: unpack(item, arrays) for key, item in value.items()}


def _known_function(value: Any) -> str | None:
    """The name of a comparison; any other function is refused, since a name that is read back must not reach code."""
    for name in _COMPARISONS:
        if value is getattr(np, name) or value is getattr(keras.ops, name):
            return f"{'numpy' if value is getattr(np, name) else 'keras'}.{name}"
    return None


def _function(name: str) -> Any:
    module, _, comparison = name.partition(".")
    if comparison not in _COMPARISONS:
        raise ValueError(f"{name!r} is no comparison")
    return getattr(np if module == "numpy" else keras.ops, comparison)


def _pack_array(value: np.ndarray, arrays: dict[str, np.ndarray], name: str) -> dict[str, str]:
    if value.dtype.kind not in "biuf":
        _refuse(value, name)
    writable = value.flags.writeable or not value.flags.owndata
    arrays[name] = np.array(value) if writable else value  # a copy: the owner may go on writing into it
    return {_ARRAY: name}


def _pack_dict(value: dict[Any, Any], arrays: dict[str, np.ndarray], name: str) -> dict[str, Any]:
    if all(type(key) is str for key in value) and not _MARKS & value.keys():
        return {key: pack(item, arrays, f"{name}/{key}") for key, item in value.items()}
    pairs = [
        [pack(key, arrays, f"{name}/{index}/key"), pack(item, arrays, f"{name}/{index}")]
        for index, (key, item) in enumerate(value.items())
    ]
    return {_PAIRS: pairs}


def _refuse(value: Any, name: str) -> Any:
    raise NotStorable(f"{name}: a {type(value).__module__}.{type(value).__qualname__} cannot be stored as data")
