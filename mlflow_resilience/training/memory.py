"""Memory given back between two attempts, and measured."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: A retry that starts with so much more than the one before had is in a process that leaks: at this rate the next ones
#: fail for it. Both bounds are to be passed; allocators alone move by tens of megabytes between equal retries.
_MORE = 1.10
_MORE_MB = 100.0


@dataclass(frozen=True, kw_only=True)
class Released:
    """Resident memory of this process in megabytes: of the failed attempt, after it was given back, and what the retry
    before this one began with (None for the first)."""

    before_mb: float
    after_mb: float
    earlier_mb: float | None

    @property
    def grows(self) -> bool:
        """Whether this retry starts with clearly more than the one before."""
        earlier = self.earlier_mb
        return earlier is not None and self.after_mb > _MORE * earlier and self.after_mb > earlier + _MORE_MB

    def __str__(self) -> str:
        text = f"{self.before_mb:.0f} MB in use after the failed attempt, {self.after_mb:.0f} MB when it was given back"
        return text if self.earlier_mb is None else f"{text}; the retry before began with {self.earlier_mb:.0f} MB"


class Memory:
    """Compares each retry with the one before. ``read`` gives a snapshot with ``worker_rss_mb``, where it is known."""

    def __init__(self, read: Callable[[], Mapping[str, Any]]) -> None:
        self._read = read
        self._earlier: float | None = None

    def release(self) -> Released:
        """Give back what nothing refers to any more."""
        before = self._resident()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # another C library has no such function
            ctypes.CDLL(None).malloc_trim(0)
        released = Released(before_mb=before, after_mb=self._resident(), earlier_mb=self._earlier)
        self._earlier = released.after_mb
        return released

    def _resident(self) -> float:
        return float(self._read().get("worker_rss_mb", 0.0))
