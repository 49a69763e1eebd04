"""A disk that is full on purpose: the next write of a checkpoint goes to a device that has no room."""

from __future__ import annotations

import threading
from pathlib import Path

FULL = Path("/dev/full")

_due = threading.Semaphore(0)


def arrange() -> None:
    """The next file that asks for its place is to find the disk full."""
    _due.release()


def place_for(path: Path) -> Path:
    """``path``; or where the kernel refuses every byte with ENOSPC, if that was arranged."""
    return FULL if _due.acquire(blocking=False) else path
