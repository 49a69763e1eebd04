"""The points of the training curves on their way into the journal: collected, and handed over a few times a second."""

from __future__ import annotations

import time
from typing import Any

_INTERVAL = 0.25  # seconds between two journal entries


class Points:
    """Collects ``[key, global step, value, time in ms]``. ``journal`` takes them as one entry, ``points``."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal
        self._waiting: list[list[Any]] = []
        self._handed_over = time.monotonic()

    def add(self, attempt: int, step: int, values: dict[str, float], prefix: str = "") -> None:
        """One point for each value."""
        now = int(time.time() * 1000)
        self._waiting.extend([f"{prefix}{key}", step, value, now] for key, value in values.items())
        if time.monotonic() - self._handed_over > _INTERVAL:
            self.flush(attempt)

    def flush(self, attempt: int) -> None:
        """Hand over what waits."""
        self._handed_over = time.monotonic()
        if self._waiting:
            self._journal.append("points", attempt=attempt, points=self._waiting)
            self._waiting = []
