"""How long it took from a process's end to the next one's first step, and where that time went."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: The moments of a restart in their order, and the part that each of them ends.
MOMENTS: dict[str, str] = {
    "ended": "",  # the kernel's notice of the end; of a hang, the last sign of life
    "judged": "detection",  # the decision stands, nothing of the old process is left
    "started": "wait",  # the backoff is over
    "running": "start",  # the new process has come to Python code
    "imported": "import",  # Keras and TensorFlow are there
    "restoring": "build",  # data and model are made
    "tracing": "restore",  # the state is restored, the place in the data found, the first batch taken
    "stepped": "trace",  # the first step is done
}
PARTS = tuple(filter(None, MOMENTS.values()))


@dataclass
class Restart:
    """From one process to the next. ``attempt`` is the one that ended; 0 for a job's first start."""

    attempt: int = 0
    at: dict[str, float] = field(default_factory=dict)  # seconds since the epoch of each moment that came
    lost_again: float | None = None  # when the new process ended in its turn, before its first step

    @property
    def done(self) -> bool:
        """Whether a first step was done."""
        return "stepped" in self.at

    @property
    def parts(self) -> dict[str, float]:
        """Seconds of each part, in order; their sum is the whole gap. A moment that never came adds its part to the
        following one's."""
        moments = [(MOMENTS[name], self.at[name]) for name in MOMENTS if name in self.at]
        if self.lost_again is not None and moments:
            names = list(MOMENTS.values())
            moments.append((names[min(names.index(moments[-1][0]) + 1, len(names) - 1)], self.lost_again))
        found: dict[str, float] = {}
        for (_, before), (part, now) in itertools.pairwise(moments):
            found[part] = found.get(part, 0.0) + now - before
        return found

    @property
    def seconds(self) -> float:
        """The whole gap."""
        return sum(self.parts.values())


class Restarts:
    """All restarts of a job, the first start included: a fold over its journal's ``mark`` entries."""

    def __init__(self) -> None:
        self.all: list[Restart] = []

    def add(self, entry: Mapping[str, Any]) -> Restart | None:
        """Take in a mark; the restart that it completes."""
        name, at = str(entry.get("mark")), float(entry.get("at") or entry.get("time") or 0.0)
        current = self.all[-1] if self.all and not self.all[-1].done else None
        if name == "ended":
            if current is not None:
                current.lost_again = at
            self.all.append(Restart(int(entry.get("attempt") or 0), {"ended": at}))
        elif name == "started" and current is None:
            self.all.append(Restart(0, {"started": at}))
        elif name in MOMENTS and current is not None:
            current.at[name] = at
            return current if name == "stepped" else None
        return None
