"""When to save, and which checkpoints to keep."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from mlflow_resilience.core.fault import Position
from mlflow_resilience.errors import UsageError

Unit = Literal["auto", "steps", "epochs", "seconds"]

_START = Position()
_SHARE = 100  # what saving costs may be one such part of the time
_LEAST_SECONDS = 1.0  # between two saves that cost next to nothing
_EVERY = re.compile(r"(?P<count>\d+(?:\.\d+)?) ?(?P<unit>steps?|epochs?|s|seconds?|m|minutes?)")
_UNITS: dict[str, tuple[Unit, int]] = {
    "st": ("steps", 1),
    "ep": ("epochs", 1),
    "mi": ("seconds", 60),
    "m": ("seconds", 60),
}


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What a schedule judges: where training is, where it was at the last save, how long ago that was, and how long
    a save holds training up (None while no save was measured)."""

    position: Position
    saved: Position = _START
    seconds: float = 0.0
    cost: float | None = None
    epoch_end: bool = False


@dataclass(frozen=True)
class Schedule:
    """Save every so many steps, epochs or seconds; or ``auto``: as often as costs no more than 1 % of the time."""

    unit: Unit = "auto"
    count: float = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``auto``, ``50steps``, ``1epoch``, ``30s`` or ``10m``."""
        told = str(text).strip().lower()
        if told == "auto":
            return cls()
        found = _EVERY.fullmatch(told)
        unit, factor = _UNITS.get(found["unit"][:2], ("seconds", 1)) if found else ("auto", 1)
        count = float(found["count"]) * factor if found else 0
        if count <= 0 or (unit != "seconds" and count != int(count)):
            raise UsageError(
                f"cannot save every {text!r}: use auto, or a number with its unit, as 50steps, 1epoch or 30s"
            )
        return cls(unit, count)

    def due(self, moment: Moment) -> bool:
        """Whether to save now; ``auto`` for checkpoints on the local disk."""
        if moment.position.global_step <= moment.saved.global_step:
            return False
        if self.unit == "steps":
            return moment.position.global_step // self.count > moment.saved.global_step // self.count
        if self.unit == "epochs":
            return moment.epoch_end and moment.position.epoch // self.count > moment.saved.epoch // self.count
        if self.unit == "seconds":
            return moment.seconds >= self.count
        return moment.cost is None or moment.seconds >= max(_LEAST_SECONDS, moment.cost * _SHARE)

    def due_for_logging(self, moment: Moment) -> bool:
        """Whether to log a model now: ``auto`` once an epoch at most, within the same share of the time."""
        if self.unit != "auto":
            return self.due(moment)
        return moment.epoch_end and self.due(moment)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A checkpoint as far as keeping it goes. A lower ``score`` is better; None where there is none."""

    name: str
    position: Position
    intact: bool = True
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class Retention:
    """Keep the ``last`` so many, the ``best`` so many, and one at the end of ``every`` so many epochs.

    Damaged ones are not kept, unless there is no other.
    """

    last: int = 3
    best: int = 1
    every: int | None = None

    def __post_init__(self) -> None:
        if self.last < 1 or self.best < 0 or (self.every is not None and self.every < 1):
            raise UsageError(f"{self}: at least the last checkpoint must be kept, and no number can be negative")

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``3`` (the last three) or ``last=3,best=2,every=10``."""
        told = str(text).strip().lower()
        found = re.fullmatch(r"\d+|(?:(?:last|best|every)=\d+)(?:, ?(?:last|best|every)=\d+)*", told)
        if not found:
            raise UsageError(f"cannot keep {text!r}: use a number, or as last=3,best=1,every=10")
        if told.isdigit():
            return cls(last=int(told))
        return cls(**{name: int(count) for name, _, count in (part.strip().partition("=") for part in told.split(","))})

    def superfluous(self, checkpoints: Sequence[Kept]) -> list[Kept]:
        """Those to delete, oldest first; never the newest intact one, nor the best."""
        intact = sorted((each for each in checkpoints if each.intact), key=lambda each: each.position)
        scored = [each for each in intact if each.score is not None and math.isfinite(each.score)]
        best = sorted(scored, key=lambda each: (each.score, -each.position.global_step))[: max(1, self.best)]
        if not intact:
            return []
        kept = {*intact[-self.last :], *best, *filter(self._is_milestone, intact)}
        return sorted((each for each in checkpoints if each not in kept), key=lambda each: each.position)

    def _is_milestone(self, checkpoint: Kept) -> bool:
        position = checkpoint.position
        return bool(self.every and position.epoch and position.step == 0 and position.epoch % self.every == 0)
