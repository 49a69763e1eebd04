"""The journal as one fit writes to it, remembering what recovery has changed in the result so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mlflow_resilience.spool.journal import Journal


class ChangeLog:
    """Passes everything on. What is beyond a roll-back is undone, and forgotten."""

    def __init__(self, journal: Journal, entries: Iterable[Mapping[str, Any]]) -> None:
        self._journal = journal
        self._changes: list[list[Any]] = []
        for entry in entries:
            self._note(str(entry.get("kind")), entry)

    def append(self, kind: str, /, durable: bool = False, **fields: Any) -> None:
        """As the journal's own."""
        self._note(kind, fields)
        self._journal.append(kind, durable=durable, **fields)

    def changes(self) -> list[list[Any]]:
        """Pairs of step and text, in order."""
        return [list(each) for each in self._changes]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def _note(self, kind: str, fields: Mapping[str, Any]) -> None:
        step = int(fields.get("step") or 0)
        if kind == "semantic_change":
            self._changes.append([step, str(fields.get("text", ""))])
        elif kind == "rolled_back":
            self._changes = [each for each in self._changes if each[0] <= step]
