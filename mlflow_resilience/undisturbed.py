"""How a result stands against that of a clean run of the same training, where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow_resilience.spool.folder import jobs
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.summary import final_metrics, one_line

RESUME_KEY = "resilience.resume_key"
_MOST_JOBS, _LONGEST_JOURNAL = 30, 50_000_000  # the newest, and bytes: a look at them is to take a second
_MOST_METRICS = 3


@dataclass(frozen=True)
class CleanRun:
    """A run of the same resume key and epochs that finished without a fault: its name and last metrics."""

    name: str
    metrics: Mapping[str, float]


def wanted(record: JobRecord) -> tuple[str, str] | None:
    """Resume key and epochs of the clean run that the result is to be held against; None where there is no result, or
    nothing that could have changed it."""
    key, epochs = record.tags.get(RESUME_KEY), record.params.get("epochs")
    finished = record.outcome in ("clean", "recovered") and (record.faults or record.resumed)
    return (str(key), str(epochs)) if finished and key and epochs else None


def in_words(record: JobRecord, clean: CleanRun | None) -> str:
    """``final val_loss 0.12 against 0.11 of the clean run wise-owl``; empty where there is nothing to compare."""
    if clean is None:
        return ""
    ours = {key: value for key, (_, value) in final_metrics(record).items() if key in clean.metrics}
    shown = sorted([key for key in ours if key.startswith("val_")] or ours)
    if not shown:
        return ""
    name = one_line(clean.name, 80)
    if all(_shown(ours[key]) == _shown(clean.metrics[key]) for key in shown):
        told = ", ".join(f"{one_line(key, 40)} {_shown(ours[key])}" for key in shown[:_MOST_METRICS])
        return f"Final metrics as in the clean run {name}: {told}."
    told = ", ".join(
        f"{one_line(key, 40)} {_shown(ours[key])} against {_shown(clean.metrics[key])}" for key in shown[:_MOST_METRICS]
    )
    return f"Held against the clean run {name}: final {told}."


def in_home(home: Path, record: JobRecord) -> CleanRun | None:
    """The newest such job among those whose folders are on this machine."""
    if (asked := wanted(record)) is None:
        return None
    for folder in jobs(home)[:_MOST_JOBS]:
        if folder.job_id == record.job_id or folder.journal.stat().st_size > _LONGEST_JOURNAL:
            continue
        other = JobRecord.read(folder.journal)
        if other.outcome == "clean" and other.resumed is None and _key(other) == asked:
            name = _name(other.job, str(folder.read_sender_state().get("run_id") or folder.job_id))
            return CleanRun(name, {key: value for key, (_, value) in final_metrics(other).items()})
    return None


def _key(record: JobRecord) -> tuple[str, str]:
    return str(record.tags.get(RESUME_KEY)), str(record.params.get("epochs"))


def _name(job: Mapping[str, Any], run_id: str) -> str:
    name = str(job.get("run_name") or "")
    return f"{name} ({run_id[:8]})" if name else run_id[:8]


def _shown(value: float) -> str:
    return f"{value:.4g}"
