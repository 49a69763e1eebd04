"""How long to wait before trying again."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from mlflow_resilience.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Waits that grow by ``factor`` up to ``max_seconds``.

    ``jitter`` (0 to 1) draws each wait down towards the one before it by a share that depends on nothing but the
    values given: the same job waits the same, two jobs do not wait in step.
    """

    first_seconds: float = 1.0
    factor: float = 2.0
    max_seconds: float = 60.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if self.first_seconds < 0 or self.max_seconds < 0 or self.factor < 1 or not 0 <= self.jitter <= 1:
            raise UsageError(f"{self}: seconds cannot be negative, factor is at least 1, jitter is from 0 to 1")

    def delay(self, strikes: int, seed: str = "") -> float:
        """Seconds to wait after so many earlier tries."""
        longest = self._without_jitter(strikes)
        shortest = self._without_jitter(strikes - 1)
        share = zlib.crc32(f"{seed}/{strikes}".encode()) / 2**32
        return longest - (longest - shortest) * self.jitter * share

    def _without_jitter(self, strikes: int) -> float:
        if strikes < 0:
            return 0.0
        # an exponent that is too large for a float would raise, long after the bound is reached
        return min(self.max_seconds, self.first_seconds * self.factor ** min(strikes, 64))
