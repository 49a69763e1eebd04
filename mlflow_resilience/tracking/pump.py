"""Reads the journal at delivery's own pace: entries in, operations out, the cursor behind them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mlflow_resilience.spool.codec import Entry, Reader
from mlflow_resilience.tracking import limits
from mlflow_resilience.tracking.operations import LogMetrics, LogParams, Operation, SetTags
from mlflow_resilience.tracking.projection import Projection
from mlflow_resilience.tracking.state import SenderState

BULK = (LogMetrics, LogParams, SetTags)


class Pump:
    """``execute`` carries one operation out and raises where it should be tried again."""

    def __init__(
        self, journal: Path, projection: Projection, state: SenderState, execute: Callable[[Operation], None]
    ) -> None:
        self._reader, self._projection, self._state, self._execute = Reader(journal), projection, state, execute
        self._work: list[Operation] = []
        self._offset = state.cursor
        self.delivered = 0  # journal entries

    def step(self) -> bool:
        """One round of work; False when nothing waits. What it raises leaves the rest of the round for the next."""
        if not self._work:
            self._fill()
        if not self._work and self._offset == self._state.cursor:
            return False
        while self._work:
            self._execute(self._work[0])
            self._work.pop(0)
        self._state.cursor = self._offset
        return True

    def skip(self) -> Operation:
        """Leave out the operation that cannot be carried out."""
        return self._work.pop(0)

    @property
    def waiting(self) -> Operation | None:
        """The operation that is to be carried out next."""
        return self._work[0] if self._work else None

    def _operations(self, entry: Entry) -> list[Operation]:
        try:
            return self._projection.add(entry)
        except Exception as error:  # an entry that makes no sense costs itself alone
            self._state.problem(f"journal entry {entry.get('kind')}", f"{type(error).__name__}: {error}")
            return []

    def _fill(self) -> None:
        """Take entries until there is a batch, or something that is not delivered in bulk."""
        gathered: list[Operation] = []
        points = 0
        for entry, offset in self._reader.poll():
            operations = self._operations(entry)
            self.delivered += 1
            self._offset = max(self._offset, offset)
            if offset <= self._state.cursor:
                continue  # delivered before this sender began
            gathered += operations
            points += sum(len(each.points) for each in operations if isinstance(each, LogMetrics))
            if points >= limits.METRICS_A_BATCH or not all(isinstance(each, BULK) for each in operations):
                break
        self._work = coalesce(gathered)


def coalesce(operations: list[Operation]) -> list[Operation]:
    """Neighbouring bulk operations on one run become one; the order of all else stays."""
    merged: list[Operation] = []
    for bulk, neighbours in itertools.groupby(operations, lambda operation: isinstance(operation, BULK)):
        group = list(neighbours)
        merged += _merge(group) if bulk else group
    return merged


def _merge(group: list[Operation]) -> list[Operation]:
    found: dict[tuple[object, ...], Operation] = {}
    for operation in group:
        if isinstance(operation, LogMetrics):
            key: tuple[object, ...] = (LogMetrics, operation.run, operation.clock)
            known = found.get(key)
            points = [*known.points, *operation.points] if isinstance(known, LogMetrics) else operation.points
            found[key] = replace(operation, points=points)
        elif isinstance(operation, LogParams):
            found[(LogParams, operation.run, len(found))] = operation
        elif isinstance(operation, SetTags):
            known = found.get((SetTags, operation.run))
            tags = {**known.tags, **operation.tags} if isinstance(known, SetTags) else operation.tags
            found[(SetTags, operation.run)] = replace(operation, tags=tags)
    return [each for each in found.values() if not isinstance(each, LogMetrics) or each.points]
