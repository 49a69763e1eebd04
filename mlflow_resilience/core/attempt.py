"""The settings of an attempt, and the record of attempts: advance, strikes, ceiling."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What recovery may change; constant within an attempt, and logged as the attempt's params."""

    accumulation: int = 1  # pieces (micro-batches) that a batch is trained in, with one optimiser step
    validation_pieces: int = 1  # pieces that a batch is validated in
    learning_rate_scale: float = 1.0
    gradient_bound: float | None = None  # the global norm that gradients are clipped to
    skipped_batches: tuple[int, ...] = ()  # global steps (from 1) whose batch is left out
    input_reduction: int = 1  # divisor of shuffle buffer, prefetch and parallelism
    memory_growth: bool = False
    grown_back: bool = False  # fewer pieces were tried again, which is done once

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; keys of a newer format are ignored."""
        known = {field.name for field in dataclasses.fields(cls)}
        values = {key: value for key, value in data.items() if key in known}
        values["skipped_batches"] = tuple(values.get("skipped_batches", ()))
        return cls(**values)


@dataclass
class Standing:
    """Where a failure class stands: its strikes since training last got further than its last fault."""

    step: int = -1
    strikes: int = 0
    used: dict[int, int] = field(default_factory=dict)  # rung -> how often it was taken

    def after(self, step: int) -> Standing:
        """This standing as a fault at ``step`` finds it: wiped when training had advanced."""
        return Standing(step=step) if step > self.step else self


@dataclass
class AttemptLog:
    """The record of attempts and faults of one job: a fold over its journal, so that a supervisor and a new worker
    hold the same strikes, settings and ceiling."""

    job_id: str = ""
    attempt: int = 0  # the latest attempt's number
    is_open: bool = False
    settings: Settings = field(default_factory=Settings)
    faults: int = 0
    quarantined: int = 0  # records
    lost_seconds: float = 0.0
    standings: dict[str, Standing] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)  # attempts that ended, or are bound to end, FAILED
    step: int = 0  # of the last fault
    since: float | None = None  # when training last began, or went back
    reached: dict[int, float] = field(default_factory=dict)  # step that a checkpoint holds -> when it was reached

    @property
    def current(self) -> int:
        """The attempt that a fault now would belong to: the open one, or else the next."""
        return self.attempt if self.is_open else self.attempt + 1

    @classmethod
    def read(cls, entries: Iterable[Mapping[str, Any]]) -> Self:
        """From a journal's entries, in their order."""
        log = cls()
        for entry in entries:
            log.add(entry)
        return log

    def add(self, entry: Mapping[str, Any]) -> None:
        """Take in one journal entry; kinds that do not matter here are passed over."""
        handler = getattr(self, f"_add_{entry.get('kind')}", None)
        if handler is not None:
            handler(entry)

    def standing(self, failure_class: str, step: int) -> Standing:
        """How a fault of this class at this step stands."""
        return self.standings.get(failure_class, Standing()).after(step)

    def last_reached(self, step: int) -> float:
        """When training stood at ``step`` for the last time, as far as attempts and checkpoints tell."""
        return max(self.reached.get(step, 0.0), self.since or 0.0)

    def _add_header(self, entry: Mapping[str, Any]) -> None:
        self.job_id = entry.get("job_id", self.job_id)

    def _add_attempt(self, entry: Mapping[str, Any]) -> None:
        self.attempt = entry["attempt"]
        self.is_open = True
        self.settings = Settings.from_dict(entry.get("settings", {}))
        self.since = self.since or entry.get("time")

    def _add_rolled_back(self, entry: Mapping[str, Any]) -> None:
        self.since = entry.get("time", self.since)

    def _add_attempt_ended(self, entry: Mapping[str, Any]) -> None:
        self.is_open = self.is_open and entry["attempt"] != self.attempt
        if entry.get("status") == "FAILED":
            self.failed.add(entry["attempt"])

    def _add_fault(self, entry: Mapping[str, Any]) -> None:
        self.faults = entry.get("number", self.faults + 1)
        position = entry.get("fault", {}).get("position") or {}
        failure_class = entry.get("failure_class", "unknown")
        self.step = position.get("global_step", 0)
        standing = self.standing(failure_class, self.step)
        standing.strikes += 1
        self.standings[failure_class] = standing

    def _add_decision(self, entry: Mapping[str, Any]) -> None:
        if entry.get("verdict") == "stop" or entry.get("opens_attempt"):
            self.failed.add(entry["attempt"])
        if entry.get("verdict") != "continue":
            return
        before, self.settings = self.settings, Settings.from_dict(entry.get("settings", {}))
        standing = self.standings.get(entry.get("failure_class", ""))
        if standing is None:
            return
        if (rung := entry.get("rung")) is not None:
            standing.used[rung] = standing.used.get(rung, 0) + 1
        # To leave a batch out is no advance: where the next one fails too, it was not the batch.
        standing.step = max([standing.step, *(set(self.settings.skipped_batches) - set(before.skipped_batches))])

    def _add_checkpoint(self, entry: Mapping[str, Any]) -> None:
        self.reached = {entry["step"]: entry.get("time", 0.0), **_newest(self.reached, 15)}

    def _add_event(self, entry: Mapping[str, Any]) -> None:
        if entry.get("name") == "quarantine":
            self.quarantined += len(entry.get("data", {}).get("records", ())) or 1

    def _add_lost(self, entry: Mapping[str, Any]) -> None:
        self.lost_seconds += entry.get("seconds", 0.0)


def _newest(reached: dict[int, float], count: int) -> dict[int, float]:
    return dict(sorted(reached.items(), key=lambda item: item[1], reverse=True)[:count])
