"""Tensors as one file in the safetensors format, written without a copy of them in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import safetensors.numpy

_TYPES = {
    "b1": "BOOL", "u1": "U8", "i1": "I8", "u2": "U16", "i2": "I16", "f2": "F16",
    "u4": "U32", "i4": "I32", "f4": "F32", "u8": "U64", "i8": "I64", "f8": "F64",
}  # fmt: skip


def parts(arrays: Mapping[str, np.ndarray]) -> list[bytes | memoryview]:
    """The file's bytes, piece by piece: a header, then the memory of each array as it is."""
    header: dict[str, object] = {}
    pieces: list[bytes | memoryview] = []
    at = 0
    # Wide types first keeps each array where its type may lie.
    for name, array in sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        kind = _TYPES[array.dtype.str[1:]]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        pieces.append(memory_of(array))
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *pieces]


def read(data: bytes) -> dict[str, np.ndarray]:
    """The arrays in a file's bytes. Raises ValueError or safetensors' own error when they are damaged."""
    return dict(safetensors.numpy.load(data))


def memory_of(array: np.ndarray) -> memoryview:
    """The bytes of an array, not copied where they lie in order."""
    return np.asarray(array, order="C").reshape(-1).view(np.uint8).data
