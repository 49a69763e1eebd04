"""The journal as the supervisor follows it: the record of attempts, and how far training is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from mlflow_resilience.core.attempt import AttemptLog
from mlflow_resilience.spool.codec import Entry, Reader
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.supervisor.grace import Grace


class Following:
    """Reads what was appended since the last look. Points are not kept: a job may have millions."""

    def __init__(self, folder: JobFolder, show: Callable[[Entry], None], grace: Grace) -> None:
        self._reader = Reader(folder.journal)
        self._show, self.grace = show, grace
        self._own_pid = os.getpid()
        self.log = AttemptLog()
        self.step = 0
        self.epoch = 0
        self.saved = 0  # the step of the newest checkpoint, or that training began from
        self.is_training = False  # the worker that runs has done its first step
        self.config: dict[str, Any] = {}  # of a recipe that runs as our command
        self.last_handled = 0.0  # when a fault that the worker itself dealt with was seen (monotonic)
        self.recent_decision: Entry | None = None  # by the worker that runs, or ran last

    def look(self) -> None:
        """Take in all that is there now."""
        for entry, _ in self._reader.poll():
            if entry.get("pid") != self._own_pid:  # our own judge has taken in its entries already
                self.log.add(entry)
            self._note(entry)
            self.grace.note(entry)
            self._show(entry)

    def _note(self, entry: Entry) -> None:
        kind = entry.get("kind")
        if kind == "points":
            self.step = max([self.step, *(int(point[1]) for point in entry.get("points") or ())])
        elif kind in ("attempt", "rolled_back"):
            self.step = self.saved = int(entry.get("step") or 0)
            self.epoch = int(entry.get("epoch") or self.epoch)
        elif kind == "fault":
            position = (entry.get("fault") or {}).get("position") or {}
            self.step = max(self.step, int(position.get("global_step") or 0))
        elif kind == "job" and entry.get("pid") != self._own_pid:
            self.config = dict(entry.get("config") or {})
        elif kind == "checkpoint":
            self.saved = int(entry.get("step") or 0)
            self.step = max(self.step, self.saved)
            self.epoch = int(entry.get("epoch") or self.epoch)
        elif kind == "mark":
            self.is_training = entry.get("mark") == "stepped"
        elif kind == "decision":
            self.recent_decision = entry
            self.last_handled = time.monotonic()
