"""The sign of life that a worker gives its supervisor: a small record, rewritten in place when something moved."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

SIZE = 256
_INTERVAL = 0.2  # seconds between two records, at the least


class Heartbeat:
    """``beat`` costs an assignment; a thread of its own writes, at most five times a second."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        self._now: tuple[str, int, int, int] = ("start", 0, 0, 0)
        self._moved = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def beat(self, phase: str, step: int, epoch: int = 0) -> None:
        """Something moved: the worker is now in this phase, at this step."""
        self._now = (phase, step, epoch, self._now[3] + 1)
        self._moved.set()

    def leave(self, phase: str) -> None:
        """The worker goes on to something else, at the same step."""
        self.beat(phase, *self._now[1:3])

    def close(self) -> None:
        """Write the last record and stop."""
        self._closed = True
        self._moved.set()
        self._thread.join()
        os.close(self._descriptor)

    def _run(self) -> None:
        while not self._closed:
            self._moved.wait()
            self._moved.clear()
            self._write()
            time.sleep(_INTERVAL)
        self._write()

    def _write(self) -> None:
        phase, step, epoch, count = self._now
        record = {"pid": os.getpid(), "phase": phase, "step": step, "epoch": epoch, "count": count, "time": time.time()}
        os.pwrite(self._descriptor, json.dumps(record).encode().ljust(SIZE), 0)
