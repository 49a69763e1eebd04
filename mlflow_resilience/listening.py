"""The journal as one fit writes to it, with others who hear of each entry as it is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from mlflow_resilience.core.redaction import redact
from mlflow_resilience.spool.journal import Journal

Listener = Callable[[dict[str, Any]], object]


class Listening:
    """Passes everything on. A listener that fails is left out from then on, and that is said; training goes on."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        """From now on it hears of each entry, once it is handed over to the journal."""
        self._listeners.append(listener)

    def append(self, kind: str, /, durable: bool = False, **fields: Any) -> None:
        """As the journal's own."""
        self._journal.append(kind, durable=durable, **fields)
        for listener in tuple(self._listeners):
            try:
                listener({"kind": kind, "time": time.time(), **fields})
            except Exception as error:
                self._listeners.remove(listener)
                text = redact(f"{type(listener).__name__} is left out: {type(error).__name__}: {error}")
                self._journal.append("event", name="listener_failed", attempt=0, step=0, text=text, data={})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)
