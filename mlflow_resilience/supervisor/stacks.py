"""Where a worker that stands still is standing: asked of it before it is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from mlflow_resilience.supervisor import kernel

NAME = "stacks-{attempt:03d}.txt"


def ask(pid: int, path: Path, patience: float = 2.0) -> bool:
    """Have the process write the stacks of its threads to ``path`` (it listens for SIGUSR2); whether it did."""
    if kernel.is_stopped(pid):
        return False
    before = _size(path)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR2)
    deadline = time.monotonic() + patience
    size = before
    while time.monotonic() < deadline:
        time.sleep(0.05)
        size, last = _size(path), size
        if size > before and size == last:
            break
    return size > before


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
