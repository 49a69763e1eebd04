"""Attempts and their points from their runs in MLflow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlflow.entities import Run

from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.curve import Point, Series
from mlflow_resilience.spool.record import JobRecord


def number(child: Run) -> int:
    """The attempt's number, 0 where the run is none."""
    text = child.data.tags.get("resilience.attempt", "")
    return int(text) if text.isdigit() else 0


def entries(child: Run, said: set[tuple[Any, Any]]) -> list[Entry]:
    """What the attempt's run says, as entries, without those whose kind and attempt the events ``said``."""
    tags, start, end = child.data.tags, child.info.start_time or 0, child.info.end_time or 0
    step = tags.get("resilience.resumed_from_step", "0")
    opening = {"kind": "attempt", "time": start / 1000, "step": int(step) if step.isdigit() else 0,
               "settings": dict(child.data.params)}  # fmt: skip
    told: list[Entry] = [opening]
    if "resilience.failure_class" in tags:
        told += _fault(tags, end / 1000)
    if end:
        told.append({"kind": "attempt_ended", "time": end / 1000, "status": child.info.status})
    return [{**entry, "attempt": number(child)} for entry in told if (entry["kind"], number(child)) not in said]


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


def fold(told: Iterable[Entry]) -> JobRecord:
    """The record of the entries, without any point."""
    record = JobRecord()
    for entry in told:
        record.add(_numbered(record, entry) if entry.get("kind") in ("fault", "decision") else entry)
    for event in record.events:
        if event.get("name") == "replay_differs":
            _differing(record, event.get("data") or {})
    return record


def _numbered(record: JobRecord, entry: Entry) -> Entry:
    """Faults that tags tell have no number of their own."""
    if "number" in entry:
        return entry
    return {**entry, "number": len(record.faults) + (entry.get("kind") == "fault")}


def _differing(record: JobRecord, data: dict[str, Any]) -> None:
    """What the sender found when the points themselves came by."""
    try:
        point = (int(data["step"]), float(data["was"]), float(data["now"]))
        record.stitching.differing.setdefault(str(data["key"]), []).extend([point] * int(data["count"]))
    except (KeyError, TypeError, ValueError):
        return


def add_points(record: JobRecord, points: dict[int, list[Point]]) -> None:
    """Give each attempt its points. Of the last one, those beyond the job's own curve go on with that curve."""
    ends = {key: series.steps[-1] for key, series in record.curve.items() if len(series)}
    for attempt in record.attempts:
        mine = sorted(points.get(attempt.number, []), key=lambda point: point[1])
        for key, step, value, ms in mine:
            attempt.points.setdefault(key, Series()).add(step, value, ms)
        if attempt is record.attempts[-1]:
            for point in mine:
                if point[1] > ends.get(point[0], -1):
                    record.stitching.add(*point)
