"""How far a job went back, and whether it could have gone on from later: a fold over its journals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mlflow_resilience.spool.codec import Entry


@dataclass(frozen=True)
class Loss:
    """Training stood after step ``at`` and went on from ``to``; ``saved`` are the steps of the checkpoints that were
    whole then, newest first."""

    at: int
    to: int
    saved: list[int]

    @property
    def steps(self) -> int:
        """Steps that were done again."""
        return self.at - self.to

    def avoidable(self, spoilt: int = 0) -> int:
        """Steps that a whole checkpoint covered, where so many of the newest could not be used."""
        usable = self.saved[spoilt:]
        return max(0, usable[0] - self.to) if usable else 0


def losses(entries: Iterable[Entry]) -> tuple[Loss, ...]:
    """Each time that training went back, over the journals of all jobs that go on from one another, in order."""
    found: list[Loss] = []
    at, saved = 0, set[int]()
    for entry in entries:
        kind = entry.get("kind")
        if kind in ("attempt", "rolled_back"):
            to = _whole(entry.get("step"))
            if to < at:
                found.append(Loss(at, to, sorted(saved, reverse=True)))
            at, saved = to, {step for step in saved if step <= to}
        elif kind == "checkpoint":
            saved.add(_whole(entry.get("step")))
            at = max(at, _whole(entry.get("step")))
        elif kind == "points":
            at = max([at, *(_whole(point[1]) for point in entry.get("points") or () if len(point) > 1)])
        elif kind == "fault":
            position = (entry.get("fault") or {}).get("position") or {}
            at = max(at, _whole(position.get("global_step")))
    return tuple(found)


def _whole(value: Any) -> int:
    return int(value or 0)
