"""Where the time of an attempt goes."""

from __future__ import annotations

import time
from collections.abc import Callable

#: The parts that time is split into, in seconds.
PARTS = ("startup", "restore", "productive", "replayed", "save_stall", "data_wait", "backoff", "recovery")


class Stopwatch:
    """Adds the time that passes to the part that is named at the moment; the parts sum to the time since its start."""

    def __init__(self, part: str = "startup", *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._since = clock()
        self._part = part
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def switch(self, part: str) -> str:
        """From now on the time is spent on ``part``; returns what it was spent on before."""
        now = self._clock()
        self.seconds[self._part] += now - self._since
        self._since = now
        before, self._part = self._part, part
        return before

    def read(self) -> dict[str, float]:
        """The seconds of each part so far."""
        self.switch(self._part)
        return {part: round(seconds, 4) for part, seconds in self.seconds.items()}
