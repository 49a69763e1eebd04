"""Earlier jobs in this home, from their folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlflow_resilience.spool import naming
from mlflow_resilience.spool.folder import JobFolder, jobs
from mlflow_resilience.spool.process import host, is_alive
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.tracking import job_tags
from mlflow_resilience.tracking.candidates import Candidate, Question, flag, number

KEY_TAG = "resilience.resume_key"


def owner_of(folder: JobFolder, record: JobRecord) -> dict[str, Any] | None:
    """The living owner of a job, or None. On this host that is certain; of another host only the lease tells."""
    if holder := folder.owner():
        return holder
    for entry in reversed(record.owners):
        if entry.get("host") == host() and is_alive(int(entry.get("pid") or 0), entry.get("start_ticks")):
            return entry
    return None


def same_experiment(question: Question, record: JobRecord, state: dict[str, Any]) -> bool:
    """By id where both are known, else by name."""
    theirs = record.job.get("experiment_id") or state.get("experiment_id")
    if question.experiment_id and theirs:
        return str(question.experiment_id) == str(theirs)
    return (question.experiment or None) == (record.job.get("experiment") or None)


def candidate(folder: JobFolder, record: JobRecord) -> Candidate:
    """The job as a candidate."""
    state, owner = folder.read_sender_state(), owner_of(folder, record)
    resumed = record.resumed or {}
    params = record.params
    step = newest_step(folder.checkpoints)
    last = record.owners[-1] if record.owners else {}
    return Candidate(
        job_id=folder.job_id,
        run_id=state.get("run_id") or record.job.get("run_id"),
        resume_key=str(record.tags.get(KEY_TAG) or ""),
        outcome=record.outcome,
        alive=owner is not None and record.ended is None,
        epochs=number(params.get("epochs")),
        recover=flag(params.get("recover", "true")),
        fault=str(params.get("fault") or ""),
        host=str((owner or last).get("host") or ""),
        pid=(owner or last).get("pid"),
        folder=folder,
        step=step,
        source=(resumed.get("from_job"), resumed.get("from_run")),
        params=params,
        lineage=job_tags.totals(record),
        curve=[(key, *sample) for key, series in record.curve.items() for sample in series],
    )


def newest_step(checkpoints: Path) -> int | None:
    """The step of the newest whole checkpoint in the folder, by its name ``step-N``."""
    steps = [path.name.partition("-")[2] for path in checkpoints.glob("step-*") if (path / "state.json").is_file()]
    return max((int(step) for step in steps if step.isdigit()), default=None)


def matching(home: Path, question: Question) -> Iterator[Candidate]:
    """The jobs of the experiment that ``auto`` may go on with, newest first."""
    for folder in jobs(home):
        record = JobRecord.read(folder.journal)
        found = candidate(folder, record)
        if found.matches(question) and same_experiment(question, record, folder.read_sender_state()):
            yield found


def named(home: Path, name: str) -> Candidate | None:
    """The job with this id, or whose run (or attempt's run) has it; its beginning will do. Raises UsageError where
    several begin so."""
    folder = naming.local(home, name)
    return None if folder is None else candidate(folder, JobRecord.read(folder.journal))
