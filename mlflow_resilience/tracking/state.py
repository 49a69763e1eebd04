"""``sender.json``: how far delivery is, which runs it made, what was refused; written whole after each step."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from mlflow_resilience.core.redaction import redact
from mlflow_resilience.spool import atomic

#: starting, open, unreachable (goes on trying), invalid (can never work), done (all is delivered)
STATES = ("starting", "open", "unreachable", "invalid", "done")
MOST_PROBLEMS = 100


@dataclass
class SenderState:
    """What a sender that starts again needs to know, and what supervisor and terminal show."""

    state: str = "starting"
    message: str = ""
    job_id: str = ""
    pid: int = 0
    tracking_uri: str = ""
    experiment_id: str | None = None
    run_id: str | None = None
    runs: dict[str, str] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    cursor: int = 0  # offset in the journal up to which all is delivered
    pending: int = 0  # journal entries that wait
    problems: list[dict[str, Any]] = field(default_factory=list)
    adopted: dict[str, Any] = field(default_factory=dict)  # what the run held before we first wrote to it
    clock_shift: int = 0  # seconds between the run's start and this job's, for a run that had memory curves
    tables: list[str] = field(default_factory=list)  # artifacts that MLflow shows as tables
    ambiguous: list[str] = field(default_factory=list)  # local ids whose creation may have happened unseen
    ended: bool = False
    time: float = 0.0

    @classmethod
    def load(cls, path: Path) -> Self:
        """The state in the file; a fresh one when there is none (all is then delivered again, harmlessly)."""
        known = {each.name for each in fields(cls)}
        value = atomic.read_json(path)
        return cls(**{key: each for key, each in value.items() if key in known}) if isinstance(value, dict) else cls()

    def save(self, path: Path) -> None:
        """Write it whole."""
        self.pid, self.time = os.getpid(), time.time()
        atomic.write_json(path, asdict(self))

    def say(self, state: str, message: str = "") -> None:
        """How things stand, for supervisor and terminal."""
        self.state, self.message = state, redact(message)

    def problem(self, what: str, why: str) -> bool:
        """Note a permanent refusal. True when it is new: each is reported once."""
        why = redact(why)[:2000]
        for known in self.problems:
            if (known["what"], known["why"]) == (what, why):
                known["count"] += 1
                return False
        if len(self.problems) >= MOST_PROBLEMS:
            return False
        self.problems.append({"what": what, "why": why, "count": 1, "time": time.time()})
        return True
