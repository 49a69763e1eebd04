"""Journal entries in words, one line each: what happened, where, what is done, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

Entry = Mapping[str, Any]


@dataclass
class Progress:
    """How far the job is. ``total`` is None as long as nobody knows how many steps there will be."""

    attempt: int = 0
    step: int = 0
    phase: str = "start"
    steps_per_epoch: int | None = None
    epochs: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> int | None:
        return self.steps_per_epoch * self.epochs if self.steps_per_epoch and self.epochs else None

    @property
    def epoch(self) -> int | None:
        """The epoch that is under way, from 1."""
        if not self.steps_per_epoch:
            return None
        epoch = self.step // self.steps_per_epoch + 1
        return min(epoch, self.epochs) if self.epochs else epoch

    @property
    def where(self) -> str:
        """``attempt 2, epoch 3/10``."""
        parts = [f"attempt {self.attempt}"] if self.attempt > 1 else []
        if self.epoch is not None:
            parts.append(f"epoch {self.epoch}" + (f"/{self.epochs}" if self.epochs else ""))
        return ", ".join(parts) or self.phase


class Narrator:
    """Turns a job's entries into lines, and keeps its progress."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._hint = ""

    def lines(self, entry: Entry) -> list[str]:
        """What there is to say about the next entry; mostly nothing."""
        teller = self._tellers.get(str(entry.get("kind")))
        return [] if teller is None else [line for line in teller(self, entry) if line]

    def _attempt(self, entry: Entry) -> list[str]:
        self.progress.attempt = int(entry.get("attempt") or 0)
        self.progress.step = int(entry.get("step") or 0)
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
            self.progress.step = max(self.progress.step, int(step))
            if "/" not in key:
                by_step.setdefault(int(step), {})[key] = float(value)
        for metrics in by_step.values():
            self.progress.metrics = metrics
        return [self._epoch_line(step, metrics) for step, metrics in by_step.items()]

    def _epoch_line(self, step: int, metrics: Mapping[str, float]) -> str:
        each = self.progress.steps_per_epoch
        of = f"/{self.progress.epochs}" if self.progress.epochs else ""
        begin = f"epoch {-(-step // each)}{of}, step {step}" if each else f"step {step}"
        return f"{begin}: {in_words(metrics)}"

    def _event(self, entry: Entry) -> list[str]:
        data = entry.get("data") or {}
        if entry.get("name") == "fit":
            self.progress.epochs = data.get("epochs") or self.progress.epochs
            self.progress.steps_per_epoch = data.get("steps_per_epoch") or self.progress.steps_per_epoch
        return [str(entry.get("text") or "")]

    _tellers: ClassVar[dict[str, Callable[[Narrator, Entry], list[str]]]] = {
        "attempt": _attempt,
        "points": _points,
        "event": _event,
        "fault": _fault,
        "decision": _decision,
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


def _not_reproducible(entry: Entry) -> str:
    return "" if entry.get("value", True) else f"even undisturbed, this would not repeat itself: {entry.get('reason')}"


def _changed(entry: Entry) -> str:
    """The settings that differ from those a job starts with."""
    settings = entry.get("settings") or {}
    parts = [f"{settings['accumulation']} pieces a batch"] if settings.get("accumulation", 1) > 1 else []
    if (scale := settings.get("learning_rate_scale", 1.0)) != 1.0:
        parts.append(f"learning rate x {scale:g}")
    if skipped := settings.get("skipped_batches"):
        parts.append(f"without the batch of step {', '.join(map(str, skipped))}")
    return f" ({'; '.join(parts)})" if parts else ""
