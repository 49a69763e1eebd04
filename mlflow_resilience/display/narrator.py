"""Journal entries in words, one line each: what happened, where, what is done, and why."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mlflow_resilience.display.pace import Pace
from mlflow_resilience.spool.restarts import Restarts
from mlflow_resilience.summary import clean, duration

Entry = Mapping[str, Any]
STARTING = "start"  # the phase of a heartbeat before a process trains


@dataclass
class Progress:
    """How far the job is. ``total`` is None as long as nobody knows how many steps there will be."""

    attempt: int = 0
    step: int = 0
    epochs_done: int = 0
    phase: str = STARTING
    steps_per_epoch: int | None = None
    epochs: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    rate: float | None = None  # steps a second
    last: str = ""  # what was told last, epochs left out

    @property
    def pace(self) -> str:
        """``11 steps/s, 40 s left``, as far as that can be told."""
        if not self.rate or self.step == self.total:
            return ""
        speed = f"{self.rate:.3g} steps/s"
        return speed if self.total is None else f"{speed}, {duration(max(0, self.total - self.step) / self.rate)} left"

    @property
    def total(self) -> int | None:
        return self.steps_per_epoch * self.epochs if self.steps_per_epoch and self.epochs else None

    @property
    def where(self) -> str:
        """``attempt 2, epoch 3/10``."""
        if self.phase == STARTING and self.attempt:
            return "starting again"
        parts = [f"attempt {self.attempt}"] if self.attempt > 1 else []
        if self.attempt:
            parts.append(f"epoch {self.numbered(self.epochs_done + 1)}")
        return ", ".join(parts) or self.phase

    def numbered(self, epoch: int) -> str:
        """``3/10``, as far as that is known."""
        return f"{min(epoch, self.epochs)}/{self.epochs}" if self.epochs else str(epoch)


class Narrator:
    """Turns a job's entries into lines, and keeps its progress. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.progress = Progress()
        self._clock, self._pace = clock, Pace()
        self._hint = ""
        self._restarts = Restarts()

    def lines(self, entry: Entry) -> list[str]:
        """What there is to say about the next entry; mostly nothing."""
        teller = self._tellers.get(str(entry.get("kind")))
        told = [] if teller is None else [clean(line) for line in teller(self, entry) if line]
        if told and entry.get("kind") != "points":
            self.progress.last = told[0]
        return told

    def at(self, step: int, phase: str | None = None) -> None:
        """The job is at this step now."""
        self.progress.phase = phase or self.progress.phase
        if phase == STARTING:
            return  # a new process has not found its step yet
        self.progress.step = step
        self._pace.saw(step, self._clock())
        self.progress.rate = self._pace.rate

    def _attempt(self, entry: Entry) -> list[str]:
        self.progress.attempt = int(entry.get("attempt") or 0)
        self._pace.begin_anew()
        self.at(int(entry.get("step") or 0), "step")
        self.progress.epochs_done = int(entry.get("epoch") or 0)
        if self.progress.attempt <= 1:
            return []
        return [f"attempt {self.progress.attempt} goes on from step {self.progress.step}{_changed(entry)}"]

    def _fault(self, entry: Entry) -> list[str]:
        self._hint = str(entry.get("hint") or "")
        return []

    def _decision(self, entry: Entry) -> list[str]:
        line = f"attempt {entry.get('attempt')}: {entry.get('text')}"
        return [line, f"hint: {self._hint}" if self._hint and entry.get("verdict") == "stop" else ""]

    def _points(self, entry: Entry) -> list[str]:
        by_step: dict[int, dict[str, float]] = {}
        for key, step, value, _ in entry.get("points") or ():
            if int(step) > self.progress.step:
                self.at(int(step))
            if "/" not in key:
                by_step.setdefault(int(step), {})[key] = float(value)
        return [self._epoch_ended(step, metrics) for step, metrics in by_step.items()]

    def _epoch_ended(self, step: int, metrics: dict[str, float]) -> str:
        progress = self.progress
        if progress.epochs_done == 0 and progress.steps_per_epoch is None:
            progress.steps_per_epoch = step
        progress.epochs_done += 1
        progress.metrics = metrics
        pace = f" ({progress.pace})" if progress.pace else ""
        return f"epoch {progress.numbered(progress.epochs_done)}, step {step}: {in_words(metrics)}{pace}"

    def _job(self, entry: Entry) -> list[str]:
        self.progress.epochs = (entry.get("config") or {}).get("epochs") or self.progress.epochs
        return []

    def _event(self, entry: Entry) -> list[str]:
        data = entry.get("data") or {}
        if entry.get("name") == "fit":
            self.progress.epochs = data.get("epochs") or self.progress.epochs
            self.progress.steps_per_epoch = data.get("steps_per_epoch") or self.progress.steps_per_epoch
        return [] if entry.get("name") == "lineage" else [str(entry.get("text") or "")]  # `resumed` says the same

    def _mark(self, entry: Entry) -> list[str]:
        restart = self._restarts.add(entry)
        if restart is None or not restart.attempt:
            return []
        parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in restart.parts.items())
        return [f"training again after {restart.seconds:.1f} s ({parts})"]

    _tellers: ClassVar[dict[str, Callable[[Narrator, Entry], list[str]]]] = {
        "job": _job,
        "attempt": _attempt,
        "points": _points,
        "event": _event,
        "fault": _fault,
        "decision": _decision,
        "mark": _mark,
        "resumed": lambda self, entry: [str(entry.get("text") or "")],
        "semantic_change": lambda self, entry: [f"this changes the result: {entry.get('text')}"],
        "reproducible": lambda self, entry: (
            []
            if entry.get("value", True)
            else [f"even undisturbed this would not repeat itself: {entry.get('reason')}"]
        ),
    }


def in_words(metrics: Mapping[str, float]) -> str:
    """``accuracy 0.9833, loss 0.0613``."""
    return ", ".join(f"{key} {value:.4g}" for key, value in sorted(metrics.items()))


def _changed(entry: Entry) -> str:
    """The settings that differ from those a job starts with."""
    settings = entry.get("settings") or {}
    parts = [f"{settings['accumulation']} pieces a batch"] if settings.get("accumulation", 1) > 1 else []
    if (scale := settings.get("learning_rate_scale", 1.0)) != 1.0:
        parts.append(f"learning rate x {scale:g}")
    if (bound := settings.get("gradient_bound")) is not None:
        parts.append(f"gradients clipped to {bound:g}")
    if skipped := settings.get("skipped_batches"):
        parts.append(f"without the batch of step {', '.join(map(str, skipped))}")
    return f" ({'; '.join(parts)})" if parts else ""
