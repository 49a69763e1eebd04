"""Attempts from their runs in MLflow, and their points put among the events again."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from mlflow.entities import Run

from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.curve import Point
from mlflow_resilience.spool.record import JobRecord

_CLOSING = ("attempt", "attempt_ended", "job_ended")


def number(child: Run) -> int:
    """The attempt's number, 0 where the run is none."""
    text = child.data.tags.get("resilience.attempt", "")
    return int(text) if text.isdigit() else 0


def entries(child: Run, begun: set[Any]) -> list[Entry]:
    """What the attempt's run says, as entries; nothing of an attempt that the events know."""
    if number(child) in begun:
        return []
    tags, start, end = child.data.tags, child.info.start_time or 0, child.info.end_time or 0
    step = tags.get("resilience.resumed_from_step", "0")
    opening = {"kind": "attempt", "time": start / 1000, "step": int(step) if step.isdigit() else 0,
               "settings": dict(child.data.params)}  # fmt: skip
    told: list[Entry] = [opening]
    if "resilience.failure_class" in tags:
        told += _fault(tags, end / 1000)
    if end:
        told.append({"kind": "attempt_ended", "time": end / 1000, "status": child.info.status})
    return [{**entry, "attempt": number(child)} for entry in told]


def _fault(tags: dict[str, str], time: float) -> list[Entry]:
    facts = {"exception": tags.get("resilience.exception_type"), "message": tags.get("resilience.exception_message")}
    fault = {
        "kind": "fault",
        "time": time,
        "fault": {**facts, "simulated": tags.get("resilience.fault_simulated") == "true"},
        "failure_class": tags["resilience.failure_class"],
        "failure_domain": tags.get("resilience.failure_domain", "unknown"),
        "hint": tags.get("resilience.hint", ""),
    }
    text = tags.get("resilience.decision")
    decision = {"kind": "decision", "time": time, "text": text, "basis": tags.get("resilience.decision_basis", "")}
    return [fault, decision] if text else [fault]


def fold(told: Iterable[Entry], points: dict[int, list[Point]]) -> JobRecord:
    """The record of the entries, each attempt's points before the checkpoint that covers them, or before its end."""
    record = JobRecord()
    waiting = {attempt: sorted(each, key=lambda point: (point[3], point[1])) for attempt, each in points.items()}
    current = 0
    for entry in told:
        kind = entry.get("kind")
        if kind in _CLOSING:
            _add(record, current, waiting.pop(current, []))
        elif kind == "checkpoint":
            _add_up_to(record, current, waiting, int(entry.get("step") or 0))
        if kind in ("fault", "decision"):
            entry = _numbered(record, entry)
        record.add(entry)
        if kind == "attempt":
            current = int(entry.get("attempt") or 0)
    _add(record, current, waiting.pop(current, []))
    return record


def _numbered(record: JobRecord, entry: Entry) -> Entry:
    """Faults that tags tell have no number of their own."""
    if "number" in entry:
        return entry
    return {**entry, "number": len(record.faults) + (entry.get("kind") == "fault")}


def _add_up_to(record: JobRecord, attempt: int, waiting: dict[int, list[Point]], step: int) -> None:
    mine = waiting.get(attempt, [])
    _add(record, attempt, [point for point in mine if point[1] <= step])
    waiting[attempt] = [point for point in mine if point[1] > step]


def _add(record: JobRecord, attempt: int, points: list[Point]) -> None:
    if points:
        time = min(points[-1][3] / 1000, record.last_time or math.inf)
        record.add({"kind": "points", "time": time, "attempt": attempt, "points": points})
