"""What training writes into the journal as it goes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.fault import Position
from mlflow_resilience.core.judge import Journal, Judge
from mlflow_resilience.core.redaction import redact
from mlflow_resilience.training import changes
from mlflow_resilience.training.points import Points
from mlflow_resilience.training.records import Bad
from mlflow_resilience.training.stopwatch import Stopwatch


class Telling:
    """Everything is told of the attempt that is open. ``settings`` are those last told of."""

    def __init__(self, journal: Journal, judge: Judge, model: keras.Model) -> None:
        self._journal, self._judge, self._model = journal, judge, model
        self._points = Points(journal)
        self.settings = Settings()

    @property
    def _attempt(self) -> int:
        return self._judge.log.attempt

    def event(self, name: str, text: str, position: Position, **data: Any) -> None:
        step = position.global_step
        self._journal.append("event", name=name, attempt=self._attempt, step=step, text=text, data=data)

    def semantic_change(self, text: str, step: int) -> None:
        """From ``step`` on the result is not the one of an undisturbed run, or may not be."""
        self._journal.append("semantic_change", step=step, text=text)

    def changes(self, settings: Settings, step: int) -> None:
        """After ``step`` other settings are in force."""
        for text in changes.in_words(self._model, self.settings, settings, step):
            self.semantic_change(text, step + 1)
        self.settings = settings

    def inexact(self, ops: Sequence[str], position: Position, *, resumed: bool) -> None:
        """The model draws random numbers by ``ops``, which no state holds."""
        text = (
            f"the model draws from {', '.join(ops)}, whose place in the random numbers cannot be stored: after a "
            "resume the result differs; keras.random with a SeedGenerator resumes exactly"
        )
        self.event("not_exact", text, position)
        if resumed:
            self.semantic_change(text, position.global_step)

    def quarantined(self, bad: list[Bad], step: int) -> None:
        """These records are left out of the batch of ``step``."""
        records = [record.to_dict() for record in bad]
        text = redact(f"left out at step {step}: {', '.join(record.identity for record in bad)}")
        entry = {"name": "quarantine", "attempt": self._attempt, "step": step, "text": text}
        self._journal.append("event", durable=True, **entry, data={"records": records})
        self._judge.log.add({"kind": "event", **entry, "data": {"records": records}})
        self.semantic_change(text, step)

    def step(self, position: Position, logs: dict[str, float], norm: float | None) -> None:
        """The points of one step. A norm that is not finite belongs to a step that the optimiser skipped."""
        self.curve(position, logs, "batch/")
        if norm is not None and math.isfinite(norm):
            self.curve(position, {"gradient/global_norm": norm})

    def curve(self, position: Position, logs: dict[str, float], prefix: str = "") -> None:
        self._points.add(self._attempt, position.global_step, logs, prefix)

    def points(self) -> None:
        """The points of the curves so far are handed over: a checkpoint covers what the journal holds."""
        self._points.flush(self._attempt)

    def times(self, stopwatch: Stopwatch) -> None:
        seconds: dict[str, Any] = dict(stopwatch.read())
        self._journal.append("times", attempt=self._attempt, **seconds)


def numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    """Of Keras's logs what is a number: a callback may have put anything beside them."""
    found = {}
    for name, value in logs.items():
        with contextlib.suppress(TypeError, ValueError):
            found[name] = float(value)
    return found
