"""How much memory a failed allocation asked for, and where, as allocators tell it."""

from __future__ import annotations

import math
import re

from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

IMPOSSIBLE = 32 * 2**40  # bytes; no machine has so much, so the request itself is wrong

_NAMED = 3  # tensors, of those that a message lists

_UNIT = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}
_AMOUNT = re.compile(
    r"(?:allocat\w*|reserv\w*|request\w*(?: for)?|used|exceeded)[^\d\[(]{0,40}?"
    r"(\d[\d,]*(?:\.\d*)?) ?([kmgtpe]?)(?:i?b|bytes)?\b",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"shape ?[\[(]([\d, ]+)[\])](?:.{0,20}\btype (\w+))?", re.IGNORECASE)
_ALLOCATOR = re.compile(r"\b(?:by allocator|allocator \() ?([\w.]+)", re.IGNORECASE)
_XLA_SHAPE = re.compile(r"\b(pred|bf16|[fsuc](?:8|16|32|64|128))\[([\d,]+)\]")
_WIDTH = {"double": 8, "int64": 8, "complex64": 8, "complex128": 16, "half": 2, "bfloat16": 2, "uint8": 1, "bool": 1}
_WIDTH |= {"pred": 1, "bf16": 2, **{f"{kind}{bits}": bits // 8 for kind in "fsuc" for bits in (8, 16, 32, 64, 128)}}

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

#: The driver's own reason, which is not memory: whatever is asked for fails after it.
_BY_FAULT = words(r"cuda_error_(?!out_of_memory)\w+")

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
    r"array with shape|\bcgroup|killed process|\bsrun|slurm|oom[ _-]?kill|your (?:notebook|session)",
)

#: Who ends processes for the machine's memory, and never for a device's, whatever the machine is called.
KILLERS = words(
    r"oom[ _-]?kill|\bcgroup",
    r"\bsrun\b|slurm",
    r"memory pressure|\bnode\b.*\blow on (?:resource: )?memory|killed .*\bmemory",
)


def bytes_asked(message: str) -> int:
    """The largest amount that the message names, from a number of bytes or a tensor's shape; 0 if none."""
    amounts = [float(n.replace(",", "")) * 1024 ** _UNIT[unit.lower()] for n, unit in _AMOUNT.findall(message)]
    amounts.extend(float(_bytes(shape, kind)) for shape, kind in _SHAPE.findall(message))
    return int(max(amounts, default=0))


def shapes(message: str) -> list[tuple[str, str]]:
    """The tensors that the message names: their dimensions, and their type where it is told."""
    return [(shape, kind) for shape, kind in dict.fromkeys(_SHAPE.findall(message))]


def allocator(message: str) -> str:
    """The allocator that the message names; empty if none."""
    found = _ALLOCATOR.search(message)
    return found[1] if found else ""


def failed(fault: Fault) -> bool:
    """Whether memory ran out, for a request that some machine could meet."""
    return _refused(fault) and bytes_asked(fault.message) < IMPOSSIBLE


def impossible(fault: Fault) -> bool:
    """Whether memory was asked for that no machine has."""
    return _refused(fault) and bytes_asked(fault.message) >= IMPOSSIBLE


def _refused(fault: Fault) -> bool:
    if fault.is_a("MemoryError", "_ArrayMemoryError"):
        return True
    return fault.says(ALLOCATION) and not fault.says(_BY_FAULT)


def largest(fault: Fault) -> str:
    """The words for what did not fit: the amount that was asked for, and the largest tensors that are named."""
    asked = bytes_asked(fault.message)
    if not asked:
        return ""
    sizes = {shape: _bytes(shape, kind) for shape, kind in _SHAPE.findall(fault.message)}
    sizes |= {shape: _bytes(shape, kind) for kind, shape in _XLA_SHAPE.findall(fault.message)}
    named = sorted(filter(sizes.get, sizes), key=lambda shape: -sizes[shape])[:_NAMED]
    tensors = ", ".join(f"[{shape}] of {_amount(sizes[shape])}" for shape in named)
    tensors = f"a tensor of shape [{named[0]}]" if len(named) == 1 else f"the largest tensors: {tensors}"
    return f"it does not fit: {_amount(asked)} were asked for" + (f" ({tensors})" if named else "")


def _bytes(shape: str, kind: str) -> int:
    sizes = [int(size) for size in shape.replace(" ", "").split(",") if size]
    return math.prod(sizes) * _WIDTH.get(kind.lower(), 4)


def _amount(count: float) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**27 else f"{count / 2**20:.2f} MiB"
