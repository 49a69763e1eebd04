"""The contract's tags and totals, from the record."""

from __future__ import annotations

from typing import Any

from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.curve import Point, same
from mlflow_resilience.spool.record import AttemptRecord, FaultRecord, JobRecord
from mlflow_resilience.spool.summary import semantic_changes_line
from mlflow_resilience.spool.wall_clock import PARTS
from mlflow_resilience.tracking.operations import RunKey


def owner(entry: Entry) -> dict[str, Any]:
    """Who runs the job: whether its run is still owned can be told from these."""
    prefix = "resilience.worker_" if entry.get("role") == "worker" else "resilience."
    tags = {f"{prefix}pid": entry.get("pid"), "resilience.host": entry.get("host")}
    if ticks := entry.get("start_ticks"):
        tags[f"{prefix}pid_start_ticks"] = ticks
    return tags


def callers(owns_end: bool) -> dict[str, str]:
    """Said where the run was opened by the process that called `fit`, and is ended by it."""
    return {"resilience.caller_owns_end": "true"} if owns_end else {}


def counts(record: JobRecord) -> dict[str, Any]:
    """Attempts, faults and their classes, of this job run and over the lineage."""
    tags: dict[str, Any] = {"resilience.attempts": len(record.attempts), "resilience.faults": len(record.faults)}
    if record.failure_classes:
        tags["resilience.failure_classes"] = ",".join(record.failure_classes)
    if any(each.fault.get("simulated") for each in record.faults):
        tags["resilience.fault_simulated"] = "true"
    return {**tags, **lineage(record)}


def resumed(entry: Entry) -> dict[str, Any]:
    """Where the job goes on from; absent on a fresh start."""
    fields = {"run": entry.get("from_run"), "model": entry.get("from_model"), "step": entry.get("from_step")}
    return {f"resilience.resumed_from_{key}": value for key, value in fields.items() if value is not None}


def attempt_started(attempt: AttemptRecord) -> dict[str, str]:
    """An attempt run's first tags."""
    tags = {"resilience.attempt": str(attempt.number)}
    if attempt.step or attempt.number > 1:
        tags["resilience.resumed_from_step"] = str(attempt.step)
    return tags


def fault(record: FaultRecord) -> dict[str, Any]:
    """What went wrong, on the attempt run."""
    tags = {
        "resilience.failure_class": record.failure_class,
        "resilience.failure_domain": record.failure_domain,
        "resilience.exception_type": record.fault.get("exception") or "unknown",
        "resilience.exception_message": record.fault.get("message") or "",
    }
    if record.hint:
        tags["resilience.hint"] = record.hint
    if record.fault.get("simulated"):
        tags["resilience.fault_simulated"] = "true"
    return tags


def decision(entry: Entry) -> dict[str, Any]:
    """What is done about it, on the attempt run."""
    actions = ", ".join(entry.get("actions") or ())
    text = entry.get("text") or ": ".join(part for part in (str(entry.get("verdict") or "stop"), actions) if part)
    return {"resilience.decision": text, "resilience.decision_basis": entry.get("basis") or "unknown"}


def semantic_changes(record: JobRecord) -> dict[str, Any]:
    """What changed in the result; absent when nothing did."""
    line = semantic_changes_line(record)
    return {"resilience.semantic_changes": line} if line else {}


def reproducible(entry: Entry) -> dict[str, Any]:
    """Said only where an undisturbed run would not repeat itself."""
    if entry.get("value", True):
        return {}
    reason = str(entry.get("reason") or "")
    return {"resilience.reproducible": f"false: {reason}" if reason else "false"}


def ended(record: JobRecord) -> dict[str, Any]:
    """The job run's last tags."""
    tags = {**counts(record), **semantic_changes(record), "resilience.outcome": record.outcome}
    if record.exit_code is not None:
        tags["resilience.exit_code"] = record.exit_code
    return tags


def own_totals(record: JobRecord) -> dict[str, float]:
    """This job's share of the lineage."""
    end = record.ended or record.last_time
    return {
        "jobs": 1,
        "attempts": len(record.attempts),
        "faults": len(record.faults),
        "lost_steps": sum(float(entry.get("steps") or 0) for entry in record.lost),
        "lost_seconds": sum(float(entry.get("seconds") or 0) for entry in record.lost),
        "elapsed_seconds": max(end - record.started, 0.0),
        **{f"{part}_seconds": seconds for part, seconds in record.wall_clock.parts().items()},
        "ended": end,
    }


def totals(record: JobRecord) -> dict[str, float]:
    """Over the lineage: the earlier jobs' totals, which the sender put into the journal, and this one's."""
    sums = own_totals(record)
    earlier = next((event.get("data") or {} for event in record.events if event.get("name") == "lineage"), {})
    both = {key: value + float(earlier.get(key) or 0) for key, value in sums.items()}
    if (ended := float(earlier.get("ended") or 0)) and record.started > ended:
        both["idle_seconds"] += record.started - ended
        both["elapsed_seconds"] += record.started - ended
    return {**both, "ended": sums["ended"]}


def lineage(record: JobRecord) -> dict[str, Any]:
    """The ``resilience.lineage_*`` tags."""
    sums = totals(record)
    tags: dict[str, Any] = {key: int(sums[key]) for key in ("jobs", "attempts", "faults", "lost_steps")}
    seconds = [f"{key}_seconds" for key in ("lost", "elapsed", *PARTS)]
    tags |= {key: f"{sums[key]:.3f}" for key in (*seconds, "ended")}
    if record.ended is not None and sums["productive_seconds"] and sums["elapsed_seconds"]:
        tags["goodput"] = f"{sums['productive_seconds'] / sums['elapsed_seconds']:.4f}"
    return {f"resilience.lineage_{key}": value for key, value in tags.items()}


def goodput(record: JobRecord) -> dict[str, float]:
    """The job's goodput and recovery time, where the attempts' times are known."""
    sums = own_totals(record)
    if not record.wall_clock.is_measured or not sums["elapsed_seconds"]:
        return {}
    return {
        "goodput": sums["productive_seconds"] / sums["elapsed_seconds"],
        "recovery_seconds": sums["recovery_seconds"],
    }


def model_metrics(record: JobRecord, entry: Entry) -> tuple[list[Point], RunKey]:
    """A model's metrics, and the run that holds (or gets) these points: never a second point on the job's curve."""
    number, step = record.attempt(entry.get("attempt")).number, int(entry.get("step") or 0)
    ms = int(float(entry.get("time") or 0.0) * 1000)
    values = {str(key): float(value) for key, value in (entry.get("metrics") or {}).items()}
    committed = {key: _at(record.stitching.committed.get(key), step, value) for key, value in values.items()}
    if values and all(found is not None for found in committed.values()):
        return [(key, step, value, committed[key] or ms) for key, value in values.items()], "job"
    live = record.attempt(number).points
    return [(key, step, value, _at(live.get(key), step, value) or ms) for key, value in values.items()], number


def _at(series: Any, step: int, value: float) -> int | None:
    """When the very same point was logged."""
    found = (ms for at, known, ms in series or () if at == step and same(known, value))
    return next(found, None)
