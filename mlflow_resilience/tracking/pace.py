"""When to try, and when to try again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

LONGEST_PAUSE = 15.0


class Later(Exception):
    """What is to be sent has to wait. ``meaning`` as in ``refusals``; ``seconds`` is what the server asked for."""

    def __init__(self, text: str, meaning: str = "transient", seconds: float = 0.0) -> None:
        super().__init__(text)
        self.text, self.meaning, self.seconds = text, meaning, seconds


@dataclass
class Pace:
    """Failures in a row, and the time before which nothing is tried."""

    failures: int = 0
    not_before: float = 0.0
    last_success: float = field(default_factory=time.monotonic)

    def succeeded(self) -> None:
        """Something was delivered."""
        self.failures, self.not_before, self.last_success = 0, 0.0, time.monotonic()

    def failed(self, seconds: float) -> None:
        """Back off: doubling, with jitter, and never sooner than the server asked for."""
        pause = min(0.25 * 2 ** min(self.failures, 10), LONGEST_PAUSE) * random.uniform(0.75, 1.25)
        self.failures += 1
        self.not_before = time.monotonic() + max(pause, seconds)

    def is_due(self) -> bool:
        """Whether it may be tried now."""
        return time.monotonic() >= self.not_before
