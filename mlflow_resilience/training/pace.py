"""The pace of work beside a training.

A step uses all processors and waits for the slowest of them, so that whatever takes time from one holds up the whole
step. Work that has time is spread over it: no step is hit hard, and it never waits for an idle processor, which a busy
machine may not have.
"""

from __future__ import annotations

import threading
import time

_LEAST_PAUSE = 0.002  # seconds: shorter ones are saved up


class Pace:
    """Holds back the thread that works, as long as nobody hurries it."""

    def __init__(self) -> None:
        self._urgent = threading.Event()
        self._seconds = 0.0
        self._owed = 0.0
        self.paused = 0.0  # seconds of the work under way that went into pauses

    def spread(self, seconds: float) -> None:
        """The work that begins now has so much time."""
        self._seconds, self._owed, self.paused = seconds, 0.0, 0.0

    def hurry(self) -> None:
        """Whatever is under way is needed soon."""
        self._urgent.set()

    def calm(self) -> None:
        """What comes next has time again."""
        self._urgent.clear()

    def done(self, share: float) -> None:
        """Such a share of the work is done; returns when it is time for the next."""
        self._owed += share * self._seconds
        if self._owed >= _LEAST_PAUSE:
            began = time.perf_counter()
            self._urgent.wait(self._owed)
            self.paused += time.perf_counter() - began
            self._owed = 0.0
