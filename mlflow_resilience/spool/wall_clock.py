"""Where the wall clock of a job goes: a fold over its journal, over all its attempts and processes.

A training process times itself, and tells the sums (``times``); a supervisor and a new process leave marks on the way
from a death to the first step. What lies between is what the job was last known to be doing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: ``startup``: processes begin, import, trace, and whatever a script does outside of its fits. ``save_stall``: training
#: waits for a save, the finished model's included. ``compression``: after
#: training, smaller models are made. ``idle``: nothing runs, from a death to its judgment. ``replayed``:
#: steps done again; of a job that did not finish, also those that its successor will do again.
PARTS = (
    *("productive", "replayed", "startup", "restore", "save_stall", "data_wait", "backoff", "recovery", "idle"),
    "compression",
)

_ENDED_BY = {
    "judged": "idle",
    "started": "backoff",
    "running": "startup",
    "imported": "startup",
    "restoring": "startup",
}
_SAME = 1.0  # seconds; two readings of one stopwatch agree on when it began
_LIVING = frozenset({"points", "gauges", "checkpoint", "times", "mark"})


@dataclass
class _Told:
    """The latest reading of a process's stopwatch."""

    began: float = 0.0
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))


class WallClock:
    """The parts sum to the time from the job's start to its end, or to the last word of it. ``twice`` is what two
    sources both claimed, in seconds: it counts once."""

    def __init__(self) -> None:
        self.is_measured = False
        self.twice = 0.0
        self._parts = dict.fromkeys(PARTS, 0.0)
        self._at: float | None = None  # up to here all is accounted for
        self._life = 0.0  # the last sign of it
        self._doing = "startup"  # as far as marks and attempts tell
        self._trained = False  # there were points since then
        self._arriving = "startup"  # what a process does before its stopwatch begins
        self._dead = self._over = False
        self._can_restore = False
        self._delays = 0.0  # that a training process was told to wait, and has not told of yet
        self._lost = 0.0  # seconds of steps beyond the newest checkpoint, since the last attempt began
        self._told: dict[Any, _Told] = {}

    def parts(self) -> dict[str, float]:
        """Seconds of each part so far."""
        found = dict(self._parts)
        if self._at is not None and not self._over and not self._dead:
            found[self._now] += max(0.0, self._life - self._at)
        return found

    def add(self, entry: Mapping[str, Any]) -> dict[str, float]:
        """Take in the next entry; of ``times``, the seconds since the same stopwatch was last read."""
        kind, time = str(entry.get("kind")), float(entry.get("time") or 0.0)
        if kind in _LIVING:
            self._life = max(self._life, time)
        if kind == "times":
            return self._read(entry, time)
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(entry, time)
        return {}

    @property
    def _now(self) -> str:
        return "productive" if self._trained else self._doing

    def _do(self, what: str) -> None:
        self._doing, self._trained = what, False

    def _spend(self, until: float, part: str) -> None:
        if self._at is not None and until > self._at:
            self._parts[part] += until - self._at
            self._at = until

    def _read(self, entry: Mapping[str, Any], time: float) -> dict[str, float]:
        source = entry["seconds"] if isinstance(entry.get("seconds"), dict) else entry
        now = {part: float(source.get(part) or 0.0) for part in PARTS}
        began, told = time - sum(now.values()), self._told.get(entry.get("pid"), _Told())
        if abs(told.began - began) > _SAME or any(now[part] < told.parts[part] for part in PARTS):
            told = _Told()  # another fit of this process, or its first
            self._do("startup" if entry.get("pid") in self._told else self._arriving)
        since = self._apart({part: now[part] - told.parts[part] for part in PARTS})
        self._told[entry.get("pid")] = _Told(began, now)
        self._spend_measured(since, time)
        self._do("productive")
        self.is_measured = True
        return since

    def _apart(self, since: dict[str, float]) -> dict[str, float]:
        """A process that waits before it tries again measures that as a part of its recovery."""
        waited = min(self._delays, since["recovery"])
        self._delays = 0.0
        return {**since, "recovery": since["recovery"] - waited, "backoff": since["backoff"] + waited}

    def _spend_measured(self, since: dict[str, float], time: float) -> None:
        seconds = sum(since.values())
        if self._at is None:
            self._at = time - seconds
        self._spend(time - seconds, self._doing)
        self.twice += max(0.0, self._at - (time - seconds))
        share = min(1.0, max(0.0, time - self._at) / seconds) if seconds > 0 else 0.0
        for part in PARTS:
            self._parts[part] += since[part] * share
        self._at = max(self._at, time)

    def _on_job(self, entry: Mapping[str, Any], time: float) -> None:
        if self._at is None:
            self._at = self._life = float(entry.get("started") or time)

    def _on_mark(self, entry: Mapping[str, Any], time: float) -> None:
        name, at = str(entry.get("mark")), float(entry.get("at") or time)
        if name == "ended":
            self._spend(at, self._now)
            self._do("idle")
            self._dead = True
        elif name in _ENDED_BY:
            first = name == "started" and not self._dead
            self._spend(at, "startup" if first else _ENDED_BY[name])
            self._dead = self._dead and name == "judged"
            restores = name == "restoring" and self._can_restore
            self._arriving = "restore" if restores else "startup"
            self._do("idle" if name == "judged" else self._arriving)

    def _on_points(self, entry: Mapping[str, Any], time: float) -> None:
        self._trained = True

    def _on_resumed(self, entry: Mapping[str, Any], time: float) -> None:
        self._can_restore = True

    def _on_checkpoint(self, entry: Mapping[str, Any], time: float) -> None:
        self._can_restore = True

    def _on_attempt(self, entry: Mapping[str, Any], time: float) -> None:
        self._lost = 0.0

    def _on_lost(self, entry: Mapping[str, Any], time: float) -> None:
        self._lost = float(entry.get("seconds") or 0.0) if entry.get("steps") else 0.0

    def _on_decision(self, entry: Mapping[str, Any], time: float) -> None:
        if entry.get("verdict") == "continue" and entry.get("resumption") != "new_process" and not self._dead:
            self._delays += float(entry.get("delay") or 0.0)

    def _on_attempt_ended(self, entry: Mapping[str, Any], time: float) -> None:
        if not self._dead:
            self._do("recovery" if entry.get("status") == "FAILED" else "save_stall")

    def _on_event(self, entry: Mapping[str, Any], time: float) -> None:
        if entry.get("name") == "compressing":
            self._spend(time, self._now)
            self._do("compression")

    def _on_job_ended(self, entry: Mapping[str, Any], time: float) -> None:
        if self._dead or entry.get("owner_gone"):
            self._spend(self._life, self._now)
            self._do("idle")
        self._spend(time, self._doing)
        self._over = True
        if entry.get("outcome") not in ("clean", "recovered"):
            lost = min(self._lost, self._parts["productive"])
            self._parts["productive"] -= lost
            self._parts["replayed"] += lost
