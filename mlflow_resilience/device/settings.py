"""What was asked for of the device, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from mlflow_resilience.core import bytesize, grammar
from mlflow_resilience.core.grammar import Word
from mlflow_resilience.errors import UsageError

PRECISIONS = ("mixed_bfloat16", "mixed_float16")


def _size(text: str) -> int:
    try:
        size = bytesize.parse(text)
    except UsageError as error:
        raise ValueError(text) from error
    if size < 1_000_000:
        raise ValueError(text)
    return size


_WORDS = {
    "memory_growth": Word("memory_growth"),
    "memory_limit": Word("memory_limit:SIZE (as 4GB)", (_size,), 1),
    "threads": Word("threads:WITHIN_AN_OP[:BETWEEN_OPS]", (grammar.whole, grammar.whole), 1),
    "deterministic": Word("deterministic"),
    "xla": Word("xla"),
}


@dataclass(frozen=True)
class Told:
    """Of one setting: whether it is in force, and what there is to say."""

    name: str
    done: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class DeviceSettings:
    """``memory_limit`` in bytes for each GPU; ``threads`` within an op and between ops."""

    memory_growth: bool = False
    memory_limit: int | None = None
    threads: tuple[int, int] | None = None
    deterministic: bool = False
    xla: bool = False
    precision: str | None = None

    @classmethod
    def parse(cls, device: str, precision: str = "none") -> Self:
        """From e.g. ``memory_limit:4GB,threads:4`` and ``mixed_bfloat16``. Raises UsageError."""
        if precision not in ("none", *PRECISIONS):
            raise UsageError(f"precision={precision}: none, {' or '.join(PRECISIONS)} is needed")
        found = {} if device == "none" else grammar.parse(device, _WORDS)
        if "memory_growth" in found and "memory_limit" in found:
            raise UsageError("memory_growth and memory_limit exclude each other: TensorFlow takes one of them")
        if "deterministic" in found and "xla" in found:
            raise UsageError(
                "deterministic and xla exclude each other: Keras compiles nothing while ops are deterministic"
            )
        threads = found.get("threads")
        return cls(
            memory_growth="memory_growth" in found,
            memory_limit=found.get("memory_limit", (None,))[0],
            threads=(threads[0], threads[-1]) if threads else None,
            deterministic="deterministic" in found,
            xla="xla" in found,
            precision=None if precision == "none" else precision,
        )

    def identity(self) -> dict[str, Any]:
        """What of it changes the bits of a result, where it is asked for; threads and memory do not belong to it."""
        asked = {"precision": self.precision, "deterministic": self.deterministic, "xla": self.xla}
        return {name: value for name, value in asked.items() if value}
