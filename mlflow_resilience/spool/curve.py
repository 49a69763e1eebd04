"""Points of metrics: compact columns, and the stitched curve of a job."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

#: step, value, milliseconds since the epoch
Sample = tuple[int, float, int]
#: key, step, value, milliseconds
Point = tuple[str, int, float, int]


class Series(Sequence[Sample]):
    """One metric's points, ordered by step (in order of arrival within a step); 24 bytes a point."""

    def __init__(self) -> None:
        self.steps, self.values, self.times = array("q"), array("d"), array("q")

    def add(self, step: int, value: float, ms: int) -> None:
        """Put a point in its place; mostly that is the end."""
        at = len(self.steps)
        while at and self.steps[at - 1] > step:
            at -= 1
        self.steps.insert(at, step)
        self.values.insert(at, value)
        self.times.insert(at, ms)

    def get(self, step: int) -> float | None:
        """The (first) value at the step, or None."""
        at = bisect_left(self.steps, step)
        return self.values[at] if at < len(self.steps) and self.steps[at] == step else None

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return list(zip(self.steps[index], self.values[index], self.times[index], strict=True))
        return self.steps[index], self.values[index], self.times[index]

    def __iter__(self) -> Iterator[Sample]:
        return zip(self.steps, self.values, self.times, strict=True)


def same(a: float, b: float) -> bool:
    """Equal, NaN being equal to NaN."""
    return a == b or (math.isnan(a) and math.isnan(b))


class Curve:
    """The job's curve: each (key, step) once.

    A point waits until a checkpoint covers it; what waits beyond a step that training went back to is dropped.
    A point of a replay whose (key, step) is committed already is left out; where its value differs, that is kept
    in ``differing``.
    """

    def __init__(self) -> None:
        self.committed: dict[str, Series] = {}
        self._waiting: dict[str, dict[int, tuple[float, int]]] = {}
        self.differing: dict[str, list[tuple[int, float, float]]] = {}  # key -> (step, committed, replayed)

    def add(self, key: str, step: int, value: float, ms: int) -> None:
        """A live point of an attempt."""
        known = self.committed[key].get(step) if key in self.committed else None
        if known is None:
            self._waiting.setdefault(key, {})[step] = (value, ms)
        elif not same(known, value):
            self.differing.setdefault(key, []).append((step, known, value))

    def carry(self, points: Iterable[Point]) -> list[Point]:
        """Points of an earlier job: committed at once. Returns those that were not there."""
        return [point for point in points if self._commit(*point)]

    def commit(self, step: float = math.inf) -> list[Point]:
        """A checkpoint covers all up to ``step``. Returns the points that are committed by it, in order of time."""
        fresh: list[Point] = []
        for key, waiting in self._waiting.items():
            for at in sorted(at for at in waiting if at <= step):
                value, ms = waiting.pop(at)
                if self._commit(key, at, value, ms):
                    fresh.append((key, at, value, ms))
        return sorted(fresh, key=lambda point: (point[3], point[1]))

    def drop_after(self, step: int) -> int:
        """Training goes on from ``step``: forget what waits beyond it. Returns how many points that were."""
        dropped = 0
        for waiting in self._waiting.values():
            beyond = [at for at in waiting if at > step]
            dropped += len(beyond)
            for at in beyond:
                del waiting[at]
        return dropped

    def _commit(self, key: str, step: int, value: float, ms: int) -> bool:
        series = self.committed.setdefault(key, Series())
        if series.get(step) is not None:
            return False
        series.add(step, value, ms)
        return True

    def stitched(self) -> dict[str, Series]:
        """What is committed and what waits, as one curve a key."""
        keys = {**self.committed, **{key: None for key, waiting in self._waiting.items() if waiting}}
        return {key: self._merged(key) for key in keys}

    def _merged(self, key: str) -> Series:
        waiting = self._waiting.get(key)
        if not waiting:
            return self.committed[key]
        merged = Series()
        for step, value, ms in [*self.committed.get(key, ()), *((at, *point) for at, point in sorted(waiting.items()))]:
            merged.add(step, value, ms)
        return merged
