"""When silence is a hang: limits learned from this job's own times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: Seconds of silence in each phase that never are a hang. A phase that is not listed is not watched.
FLOORS: Mapping[str, float] = {
    "start": 600.0,
    "build": 3600.0,  # a recipe's own code: it may fetch and prepare its data
    "restore": 600.0,
    "trace": 600.0,
    "data": 60.0,
    "step": 30.0,
    "callback": 60.0,
    "validation": 60.0,
    "epoch_end": 120.0,
    "checkpoint": 120.0,
    "tracking": 120.0,
    "compress": 3600.0,  # after training: it trains on, converts, and measures
}

#: The phases that come before a worker's first step.
FIRST = ("start", "build", "restore", "trace")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """``factor`` times the longest silence seen in a phase is no hang, nor what is below the phase's floor. What is
    done for the first time (tracing, compiling, filling buffers) has the floor ``first_seconds``. A process that is
    halted (SIGSTOP) does nothing in any phase: ``halted_seconds`` of that are a hang."""

    floors: Mapping[str, float] = field(default_factory=lambda: FLOORS)
    factor: float = 20.0
    first_seconds: float = 600.0
    halted_seconds: float = 30.0
    enabled: bool = True

    def of(self, phase: str, longest: float | None) -> float | None:
        """Seconds of silence that are a hang in this phase; None where none is. ``longest`` is the longest seen."""
        floor = self.floors.get(phase)
        if floor is None or not self.enabled:
            return None
        return max(floor, self.first_seconds) if longest is None else max(floor, self.factor * longest)


#: A wait for data so long, and so many times the longest before it, is worth a warning.
SLOW_SECONDS, SLOW_FACTOR = 2.0, 5.0


@dataclass(frozen=True)
class SlowData:
    """A wait of ``seconds`` before the step after ``step``; until then ``longest`` at most."""

    seconds: float
    longest: float
    step: int


@dataclass(frozen=True)
class Beat:
    """What the worker last said of itself."""

    pid: int
    phase: str
    step: int
    epoch: int | None = None


def read_beat(path: Path) -> bytes:
    """The heartbeat file's content; empty when there is none."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def parse_beat(raw: bytes) -> Beat | None:
    """The heartbeat in it, or None when it is being rewritten just now."""
    try:
        data = json.loads(raw.strip(b"\0 \n"))
        epoch = data.get("epoch")
        return Beat(int(data["pid"]), str(data["phase"]), int(data["step"]), None if epoch is None else int(epoch))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class HangWatch:
    """Measures silence, phase by phase, over all workers of a job. Times are those of a monotonic clock."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._longest: dict[str, float] = {}
        self._raw = b""
        self._changed = 0.0
        self._seen = 0.0
        self._halted = 0.0
        self._has_trained = False  # this worker has been seen in a step
        self._slow: SlowData | None = None
        self._longest_wait = 0.0  # for data, but for the first of each worker
        self.beat: Beat | None = None

    def longest(self, phase: str) -> float | None:
        """The longest silence seen in this phase."""
        return self._longest.get(phase)

    def slow_data(self) -> SlowData | None:
        """A wait for data that came to its end, and was far longer than those before it; each once."""
        slow, self._slow = self._slow, None
        return slow

    def begin(self, raw: bytes, now: float) -> None:
        """A new worker starts; ``raw`` is what an earlier one left in the file."""
        self._raw, self._changed, self._seen, self.beat = raw, now, now, None
        self._halted, self._has_trained = 0.0, False

    def see(self, raw: bytes, now: float, *, halted: bool = False) -> float | None:
        """Take in the file's content, and whether the worker is halted; the seconds of silence when they are a hang."""
        asleep = now - self._seen
        self._halted = self._halted + min(asleep, 1.0) if halted else 0.0
        self._seen = now
        if asleep > 5.0:  # we were not running ourselves (a suspended machine, a stopped session)
            self._changed += asleep
        if raw != self._raw:
            self._learn(now)
            self._raw, self._changed = raw, now
            self.beat = parse_beat(raw) or self.beat
        if self._limits.enabled and self._halted > self._limits.halted_seconds:
            return self._halted
        if self.beat is None:
            return None
        silent = now - self._changed
        limit = self._limits.of(self.beat.phase, self._longest.get(self.beat.phase))
        return silent if limit is not None and silent > limit else None

    def _learn(self, now: float) -> None:
        if self.beat is None:
            return
        phase, silent = self.beat.phase, now - self._changed
        self._longest[phase] = max(self._longest.get(phase, 0.0), silent)
        if phase == "data" and self._has_trained:
            if silent > max(SLOW_SECONDS, SLOW_FACTOR * self._longest_wait):
                self._slow = SlowData(silent, self._longest_wait, self.beat.step)
            self._longest_wait = max(self._longest_wait, silent)
        self._has_trained = self._has_trained or phase in ("trace", "step")
