"""An exclusive claim on a job: held as long as the process lives, gone with it."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, Self

from mlflow_resilience.spool.process import identity


class Lease:
    """A held ``flock``. Exclusive on one file system; across hosts that share none, the heartbeat tag advises."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: Path, role: str, wait: float = 0.5) -> Self | None:
        """Take the lease, or None when another process holds it. The short wait outlasts a mere test of it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    return None
                time.sleep(0.02)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(identity(role)).encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Give the lease back; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def holder(path: Path) -> dict[str, Any] | None:
    """Who holds the lease (role, pid, host, start_ticks), or None when it is free."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _content(descriptor)
    finally:
        os.close(descriptor)
    return None


def _content(descriptor: int) -> dict[str, Any]:
    try:
        value = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}
