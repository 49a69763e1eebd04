"""A job as its journal tells it: a pure fold over entries."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from mlflow_resilience.spool.codec import Entry, read
from mlflow_resilience.spool.curve import Curve, Point, Series
from mlflow_resilience.spool.restarts import Restarts
from mlflow_resilience.spool.wall_clock import WallClock


@dataclass
class FaultRecord:
    """One fault, how it was judged, and what was decided."""

    number: int
    attempt: int
    time: float
    fault: dict[str, Any]
    failure_class: str = "unknown"
    failure_domain: str = "unknown"
    hint: str = ""
    memory: dict[str, Any] = field(default_factory=dict)
    in_place: bool = False
    decision: Entry | None = None
    where: str = ""  # in the words of its decision

    @property
    def place(self) -> str:
        """Where it happened, in words: its judge's, else as far as its position tells; empty where nothing is known."""
        return self.where or ("" if self.step is None else f"at step {self.step}")

    @property
    def phase(self) -> str:
        """What was being done, as far as it is known."""
        return str(self.fault.get("phase") or "unknown")

    @property
    def step(self) -> int | None:
        """The global step that was done when it happened, where known."""
        position = self.fault.get("position")
        return position.get("global_step") if isinstance(position, dict) else None


@dataclass
class AttemptRecord:
    """One attempt: a span of training with constant settings."""

    number: int
    step: int = 0
    epoch: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    pid: int | None = None
    started: float = 0.0
    ended: float | None = None
    status: str | None = None
    followed: bool = False  # whether another one came after it
    end_step: int | None = None
    points: dict[str, Series] = field(default_factory=dict)
    faults: list[FaultRecord] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)

    @property
    def fault(self) -> FaultRecord | None:
        """The fault that ended it, if one did."""
        return next((fault for fault in reversed(self.faults) if not fault.in_place), None)

    @property
    def last_step(self) -> int:
        """The furthest global step that is known of it."""
        seen = [series.steps[-1] for series in self.points.values() if len(series)]
        return max([self.step, *seen, *([self.end_step] if self.end_step is not None else [])])


def points_of(entry: Entry) -> list[Point]:
    """The entry's points; malformed ones are left out."""
    points: list[Point] = []
    for raw in entry.get("points") or ():
        try:
            key, step, value, ms = raw
            points.append((str(key), int(step), float(value), int(ms)))
        except (TypeError, ValueError):
            continue
    return points


@dataclass
class JobRecord:
    """All that the journal says of a job. Unknown kinds and missing fields are tolerated."""

    header: Entry = field(default_factory=dict)
    job: Entry = field(default_factory=dict)
    owners: list[Entry] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, Any] = field(default_factory=dict)
    resumed: Entry | None = None
    attempts: list[AttemptRecord] = field(default_factory=list)
    faults: list[FaultRecord] = field(default_factory=list)
    checkpoints: list[Entry] = field(default_factory=list)
    models: list[Entry] = field(default_factory=list)
    superseded: set[str] = field(default_factory=set)
    events: list[Entry] = field(default_factory=list)
    semantic_changes: list[Entry] = field(default_factory=list)
    gauges: dict[str, Series] = field(default_factory=dict)
    lost: list[Entry] = field(default_factory=list)
    stitching: Curve = field(default_factory=Curve)
    fresh: list[Point] = field(default_factory=list)  # committed to the job's curve by the latest entry
    reproducible: Entry | None = None
    restarts: Restarts = field(default_factory=Restarts)
    wall_clock: WallClock = field(default_factory=WallClock)
    outcome: str = "running"
    exit_code: int | None = None
    text: str = ""
    ended: float | None = None
    last_time: float = 0.0

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """The record of a journal file, as far as it is whole."""
        record = cls()
        for entry, _ in read(path):
            record.add(entry)
        return record

    def add(self, entry: Entry) -> None:
        """Take in the next entry."""
        self.last_time = max(self.last_time, float(entry.get("time") or 0.0))
        self.fresh = []
        spent = self.wall_clock.add(entry)
        if any(spent.values()):
            self._spend(entry, spent)
        fold = self._folds.get(str(entry.get("kind")))
        if fold is not None:
            fold(self, entry)

    @property
    def curve(self) -> dict[str, Series]:
        """The stitched curve: each (key, step) once, over all attempts."""
        return self.stitching.stitched()

    @property
    def job_id(self) -> str:
        return str(self.header.get("job_id") or self.job.get("job_id") or "")

    @property
    def started(self) -> float:
        """When the job began, in seconds since the epoch."""
        return float(self.job.get("started") or self.job.get("time") or self.header.get("time") or 0.0)

    @property
    def failure_classes(self) -> list[str]:
        """In order of first occurrence."""
        return list(dict.fromkeys(fault.failure_class for fault in self.faults))

    @property
    def last_step(self) -> int:
        """The furthest global step that any attempt reached."""
        return max((attempt.last_step for attempt in self.attempts), default=0)

    def attempt(self, number: Any) -> AttemptRecord:
        """The attempt's record, made if this is the first word of it."""
        for record in reversed(self.attempts):
            if record.number == number:
                return record
        record = AttemptRecord(int(number or (self.attempts[-1].number if self.attempts else 1)))
        if known := next((each for each in self.attempts if each.number == record.number), None):
            return known
        self.attempts.append(record)
        return record

    def _on_job(self, entry: Entry) -> None:
        self.job = {**self.job, **entry}
        self.params.update(entry.get("params") or {})
        self.tags.update(entry.get("tags") or {})

    def _on_params(self, entry: Entry) -> None:
        if entry.get("run", "job") == "job":
            self.params.update(entry.get("params") or {})

    def _on_tags(self, entry: Entry) -> None:
        if entry.get("run", "job") == "job":
            self.tags.update(entry.get("tags") or {})

    def _on_resumed(self, entry: Entry) -> None:
        self.resumed = entry

    def _on_attempt(self, entry: Entry) -> None:
        for before in self.attempts:
            before.followed = True
        attempt = self.attempt(entry.get("attempt"))
        attempt.followed = False
        attempt.step, attempt.epoch = int(entry.get("step") or 0), int(entry.get("epoch") or 0)
        attempt.settings, attempt.reason = dict(entry.get("settings") or {}), str(entry.get("reason") or "")
        attempt.pid, attempt.started = entry.get("pid"), float(entry.get("time") or 0.0)
        self.stitching.drop_after(attempt.step)

    def _on_points(self, entry: Entry) -> None:
        attempt = self.attempt(entry.get("attempt"))
        for point in points_of(entry):
            attempt.points.setdefault(point[0], Series()).add(*point[1:])
            self.stitching.add(*point)

    def _on_carried(self, entry: Entry) -> None:
        self.fresh = self.stitching.carry(points_of(entry))

    def _on_gauges(self, entry: Entry) -> None:
        for key, step, value, ms in points_of(entry):
            self.gauges.setdefault(key, Series()).add(step, value, ms)

    def _on_fault(self, entry: Entry) -> None:
        fault = FaultRecord(
            number=int(entry.get("number") or len(self.faults) + 1),
            attempt=int(entry.get("attempt") or (self.attempts[-1].number if self.attempts else 1)),
            time=float(entry.get("time") or 0.0),
            fault=dict(entry.get("fault") or {}),
            failure_class=str(entry.get("failure_class") or "unknown"),
            failure_domain=str(entry.get("failure_domain") or "unknown"),
            hint=str(entry.get("hint") or ""),
            memory=dict(entry.get("memory") or {}),
            in_place=bool(entry.get("in_place")),
            where=str(entry.get("where") or ""),
        )
        self.faults.append(fault)
        self.attempt(fault.attempt).faults.append(fault)

    def _on_decision(self, entry: Entry) -> None:
        for fault in reversed(self.faults):
            if fault.number == entry.get("number"):
                fault.decision = entry
                return

    def kept(self) -> tuple[int, float]:
        """The step that a next process would go on from, and when it was reached: of the newest checkpoint since the
        last attempt began, or of its beginning."""
        last = self.attempts[-1] if self.attempts else AttemptRecord(0)
        since = [each for each in self.checkpoints if float(each.get("time") or 0.0) >= last.started]
        found = [(int(each.get("step") or 0), float(each.get("time") or 0.0)) for each in since]
        return found[-1] if found else (last.step, last.started)

    def _on_attempt_ended(self, entry: Entry) -> None:
        attempt = self.attempt(entry.get("attempt"))
        attempt.status, attempt.ended = str(entry.get("status") or "FAILED"), float(entry.get("time") or 0.0)
        attempt.end_step = entry.get("step")

    def _on_rolled_back(self, entry: Entry) -> None:
        step = int(entry.get("step") or 0)
        self.stitching.drop_after(step)
        # What was changed beyond it is undone; where it is done again, it is said again.
        self.semantic_changes = [each for each in self.semantic_changes if int(each.get("step") or 0) <= step]

    def _on_checkpoint(self, entry: Entry) -> None:
        self.checkpoints.append(entry)
        self.fresh = self.stitching.commit(int(entry.get("step") or 0))

    def _on_model(self, entry: Entry) -> None:
        self.models.append(entry)

    def _on_model_superseded(self, entry: Entry) -> None:
        self.superseded.add(str(entry.get("local_id")))

    def _spend(self, entry: Entry, spent: dict[str, float]) -> None:
        times = self.attempt(entry.get("attempt")).times
        times.update({part: times.get(part, 0.0) + seconds for part, seconds in spent.items() if seconds})

    def _on_mark(self, entry: Entry) -> None:
        self.restarts.add(entry)

    def _on_job_ended(self, entry: Entry) -> None:
        self.outcome, self.text = str(entry.get("outcome") or "failed"), str(entry.get("text") or "")
        self.exit_code, self.ended = entry.get("exit_code"), float(entry.get("time") or 0.0)
        self.fresh = self.stitching.commit()

    _folds: ClassVar[dict[str, Callable[[JobRecord, Entry], None]]] = {
        "header": lambda self, entry: self.header.update(entry),
        "owner": lambda self, entry: self.owners.append(entry),
        "event": lambda self, entry: self.events.append(entry),
        "semantic_change": lambda self, entry: self.semantic_changes.append(entry),
        "lost": lambda self, entry: self.lost.append(entry),
        "reproducible": lambda self, entry: setattr(self, "reproducible", entry),
        "mark": _on_mark,
        "job": _on_job,
        "params": _on_params,
        "tags": _on_tags,
        "resumed": _on_resumed,
        "attempt": _on_attempt,
        "points": _on_points,
        "carried": _on_carried,
        "gauges": _on_gauges,
        "fault": _on_fault,
        "decision": _on_decision,
        "attempt_ended": _on_attempt_ended,
        "rolled_back": _on_rolled_back,
        "checkpoint": _on_checkpoint,
        "model": _on_model,
        "model_superseded": _on_model_superseded,
        "job_ended": _on_job_ended,
    }
