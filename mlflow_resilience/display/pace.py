"""How fast a job goes, and how long it has to go."""

from __future__ import annotations

from collections import deque

WINDOW_SECONDS = 60.0  # only what was done lately tells how long the rest will take
_FEWEST_SECONDS = 2.0


class Pace:
    """Steps a second over the last minute; what lies before a jump (a roll-back, a resume) tells nothing."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def saw(self, step: int, now: float) -> None:
        """The job is at ``step``; ``now`` in seconds, of any clock that does not go back."""
        if self._seen and step < self._seen[-1][1]:
            self._seen.clear()
        if not self._seen or step > self._seen[-1][1]:
            self._seen.append((now, step))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW_SECONDS:
            self._seen.popleft()

    def begin_anew(self) -> None:
        """What comes is another stretch of training."""
        self._seen.clear()

    @property
    def rate(self) -> float | None:
        """Steps a second; None as long as it cannot be told."""
        if len(self._seen) < 2:
            return None
        (first, low), (last, high) = self._seen[0], self._seen[-1]
        return (high - low) / (last - first) if last - first >= _FEWEST_SECONDS else None
