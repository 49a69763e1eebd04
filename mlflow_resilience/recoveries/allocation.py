"""How much memory a failed allocation asked for, and where, as allocators tell it."""

from __future__ import annotations

import math
import re

from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

IMPOSSIBLE = 32 * 2**40  # bytes; no machine has so much, so the request itself is wrong

_UNIT = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_AMOUNT = re.compile(
    r"(?:allocat\w*|reserv\w*|request\w*(?: for)?|used|exceeded)[^\d\[(]{0,40}?"
    r"(\d[\d,]*(?:\.\d*)?) ?([kmgtpe]?)(?:i?b|bytes)?\b",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"shape ?[\[(]([\d, ]+)[\])](?:.{0,20}\btype (\w+))?", re.IGNORECASE)
_WIDTH = {"double": 8, "int64": 8, "complex64": 8, "complex128": 16, "half": 2, "bfloat16": 2, "uint8": 1, "bool": 1}

#: An allocation failed, whoever tried.
ALLOCATION = words(
    r"\boom\b",
    r"out[ _]of[ _]memory",
    r"ran out of memory",
    r"fail\w* to alloc",
    r"(?:cannot|unable to|could ?n[o']t|can't|tried to) (?:allocate|reserve)",
    r"bad_?alloc",
    r"alloc_failed",
    r"memory ?allocation\b.*\bfail|memoryallocation",
    r"not enough memory|insufficient memory",
    r"\ballocat(?:e|ing) \d.*\bbytes",
)

ON_DEVICE = words(
    r"device:(?:gpu|tpu|xla)",
    r"\bgpu_\d",
    r"\bcuda|\bcu(?:dnn|blas|solver|sparse|fft)|\bhip(?:error|blas)|\brocm|\bnccl",
    r"\bhbm\b|\bvmem\b|\bxla_?gpu|\btpu\b",
    r"\bgpu\b|device memory|device ordinal",
)
ON_HOST = words(
    r"device:cpu",
    r"allocator (?:\(?)(?:mkl)?cpu",
    r"cpuallocator|alloc_cpu",
    r"\bmemoryerror|bad_?alloc",
    r"cannot allocate memory",
    r"system memory|\bram\b|host memory|\bon host\b",
    r"array with shape|\bcgroup|killed process|\bsrun|slurm|oom[ -]?kill",
)


def bytes_asked(message: str) -> int:
    """The largest amount that the message names, from a number of bytes or a tensor's shape; 0 if none."""
    amounts = [float(n.replace(",", "")) * 1024 ** _UNIT[unit.lower()] for n, unit in _AMOUNT.findall(message)]
    for shape, kind in _SHAPE.findall(message):
        sizes = [int(size) for size in shape.replace(" ", "").split(",") if size]
        amounts.append(math.prod(sizes) * _WIDTH.get(kind.lower(), 4))
    return int(max(amounts, default=0))


def failed(fault: Fault) -> bool:
    """Whether memory ran out, for a request that some machine could meet."""
    return _refused(fault) and bytes_asked(fault.message) < IMPOSSIBLE


def impossible(fault: Fault) -> bool:
    """Whether memory was asked for that no machine has."""
    return _refused(fault) and bytes_asked(fault.message) >= IMPOSSIBLE


def _refused(fault: Fault) -> bool:
    return fault.is_a("MemoryError", "_ArrayMemoryError") or fault.says(ALLOCATION)


def largest(fault: Fault) -> str:
    """The words for what did not fit."""
    asked = bytes_asked(fault.message)
    if not asked:
        return ""
    shape = _SHAPE.search(fault.message)
    tensor = f" (a tensor of shape [{shape[1]}])" if shape else ""
    return f"it does not fit: {asked / 2**30:.2f} GiB were asked for{tensor}"
