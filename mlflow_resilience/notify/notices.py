"""Which entries of a journal somebody is told of, and in what words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_resilience.core.redaction import redact

FORMAT = 1

_ENDS = {"failed": "stop", "preempted": "preemption"}
_VERDICTS = {"stop": "stop", "leave": "preemption"}


class Notices:
    """A fold over the journal, so that who reads it again arrives at the same notices in the same order.

    From outside a job's end is its last entry, whoever wrote it. With ``within`` it is the decision of the process that
    trains, which does not live to see that entry.
    """

    def __init__(self, *, within: bool = False, job_id: str = "", run_id: str | None = None) -> None:
        self._within = within
        self.job_id, self.run_id = job_id, run_id
        self._failure_class: str | None = None
        self._step = 0
        self._changes: set[tuple[int, str]] = set()

    def add(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """The notice that this entry is worth, if it is worth one."""
        kind = entry.get("kind")
        self.job_id = entry.get("job_id") or self.job_id
        if kind == "job":
            self.run_id = entry.get("run_id") or self.run_id
        elif kind == "fault":
            self._failure_class = entry.get("failure_class")
            position = (entry.get("fault") or {}).get("position") or {}
            self._step = int(position.get("global_step") or self._step)
        elif kind in ("checkpoint", "rolled_back", "attempt_ended"):
            self._step = int(entry.get("step") or self._step)
        elif kind == "semantic_change":
            return self._changed(entry)
        return self._ended(entry)

    def _changed(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        change = (int(entry.get("step") or 0), str(entry.get("text") or ""))
        if change in self._changes:
            return None  # done again after a roll-back
        self._changes.add(change)
        return self._notice("semantic_change", change[1], change[0], entry)

    def _ended(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        kind, event = entry.get("kind"), None
        if kind == "decision" and self._within:
            event = _VERDICTS.get(str(entry.get("verdict")))
        elif kind == "job_ended" and not self._within:
            event = _ENDS.get(str(entry.get("outcome")))
        return self._notice(event, str(entry.get("text") or ""), self._step, entry) if event else None

    def _notice(self, event: str, text: str, step: int, entry: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "event": event,
            "job_id": self.job_id,
            "run_id": self.run_id,
            "failure_class": self._failure_class,
            "step": step,
            "text": redact(text),
            "time": entry.get("time"),
        }
