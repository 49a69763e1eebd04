"""How far a new process has come on its way to the first step, told to the journal."""

from __future__ import annotations

import time
from typing import Any, Protocol


class Appending(Protocol):
    """A journal."""

    def append(self, kind: str, /, durable: bool = False, **fields: Any) -> None:
        """Add an entry."""


class Marks:
    """The moments of one process, by the names in ``restarts.MOMENTS``; silent once the first step is done."""

    def __init__(self, journal: Appending, attempt: int = 0) -> None:
        self._journal, self._attempt = journal, attempt
        self._kept: dict[str, float] = {}
        self._tracing = self._done = False

    def keep(self, mark: str, at: float | None = None) -> None:
        """Remember a moment, to be told with the next one: who has come so far may never train."""
        self._kept[mark] = at or time.time()

    def tell(self, mark: str) -> None:
        """This process is now so far."""
        if self._done:
            return
        self.keep(mark)
        kept, self._kept = self._kept, {}
        for name, at in kept.items():
            self._journal.append("mark", mark=name, at=at, attempt=self._attempt)

    def beat(self, phase: str) -> None:
        """Training is now in ``phase``: its first step begins, or is done."""
        if self._done:
            return
        first = phase in ("trace", "step")
        if first and not self._tracing:
            self._tracing = True
            self.tell("tracing")
        elif self._tracing and not first:
            self.tell("stepped")
            self._done = True
