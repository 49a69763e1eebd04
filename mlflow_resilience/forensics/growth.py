"""How memory grew before a fault: steadily as a leak does, at once, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

MINUTES = 5.0  # that are looked at
_LEAST = 6  # readings that tell anything
_LONG = 60.0  # seconds; what grows for less may be the start of training
_FLAT = 0.05  # of the level; less is no growth
_AT_ONCE = 0.6  # of the growth within one reading is a step

Shape = Literal["unknown", "flat", "step", "rising", "steady"]


@dataclass(frozen=True)
class Growth:
    """``megabytes`` more within ``seconds``; of them ``largest`` from one reading to the next."""

    shape: Shape
    megabytes: float = 0.0
    seconds: float = 0.0
    largest: float = 0.0

    @property
    def sentence(self) -> str:
        """In words."""
        minutes = f"{self.megabytes:+.0f} MB in the last {self.seconds / 60:.1f} min"
        return {
            "unknown": "There are too few readings to tell how memory grew.",
            "flat": f"Memory was level before the fault ({minutes}).",
            "step": f"Memory rose at once ({minutes}, {self.largest:.0f} MB of it between two readings).",
            "rising": f"Memory rose ({minutes}): too short a time to tell a leak from the start of training.",
            "steady": f"Memory rose steadily ({minutes}, {self._rate:.0f} MB a minute), as a leak does.",
        }[self.shape]

    @property
    def _rate(self) -> float:
        return self.megabytes / max(self.seconds / 60, 1e-9)


def growth(readings: Sequence[tuple[float, float]]) -> Growth:
    """Of pairs of seconds and megabytes, in order: those of the last minutes."""
    recent = [each for each in readings if each[0] >= readings[-1][0] - MINUTES * 60] if readings else []
    if len(recent) < _LEAST:
        return Growth("unknown")
    values = [value for _, value in recent]
    total, seconds = values[-1] - values[0], recent[-1][0] - recent[0][0]
    largest = max(after - before for before, after in pairwise(values))
    if total <= _FLAT * values[0]:
        return Growth("flat", total, seconds, largest)
    if largest >= _AT_ONCE * total:
        return Growth("step", total, seconds, largest)
    return Growth("steady" if seconds >= _LONG else "rising", total, seconds, largest)
