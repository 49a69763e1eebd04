"""A job's record from its run in MLflow alone, for a machine that has no folder of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.curve import Point
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.tracking import naming, retold_attempts
from mlflow_resilience.tracking.documents import FOLDER
from mlflow_resilience.tracking.history import sampled
from mlflow_resilience.tracking.remote_jobs import NOT_CURVES

PARENT = "mlflow.parentRunId"
_MOST_ATTEMPTS = 200
_ATTEMPT_POINTS = 500  # of one metric: they show what was done again, behind the job's own curve
_OUTCOMES = {"FINISHED": "clean", "FAILED": "failed", "KILLED": "preempted"}


def find(client: MlflowClient, run_id: str) -> Run | None:
    """The run whose id this is, or begins so, of an attempt its job's; deleted ones too. None where there is none.
    Raises UsageError where several begin so."""
    run = naming.find(client, run_id)
    parent = run.data.tags.get(PARENT) if run is not None and "resilience.attempt" in run.data.tags else None
    return (naming.find(client, parent) or run) if parent else run


def retell(client: MlflowClient, run: Run) -> JobRecord:
    """The record: what happened from ``events.jsonl``, what that lacks from tags, curves from metric histories."""
    told = list(events(client, run.info.run_id))
    children = _children(client, run)
    said = {(entry.get("kind"), entry.get("attempt")) for entry in told if not entry.get("in_place")}
    entries = [*(told or [_job(run)])]
    last = [entries.pop()] if entries and entries[-1].get("kind") == "job_ended" else []
    entries += [each for child in children for each in retold_attempts.entries(child, said)]
    record = retold_attempts.fold([*entries, *last])
    known = {key: value for key, value in record.job.items() if value is not None}
    record.job = {"run_id": run.info.run_id, **_job(run), **known}
    record.add({"kind": "carried", "points": _histories(client, run, curves=True)})
    record.add({"kind": "gauges", "points": _histories(client, run, curves=False)})
    retold_attempts.add_points(record, _points(client, children))
    _close(record, run, bool(told or children))
    return record


def events(client: MlflowClient, run_id: str) -> Iterable[Entry]:
    """The entries of ``events.jsonl``. Where a run held several jobs, numbers go on over all of them."""
    attempts = faults = attempts_before = faults_before = 0
    for entry in _lines(client, run_id):
        if entry.get("kind") == "header":
            attempts_before, faults_before = attempts, faults
        if isinstance(number := entry.get("attempt"), int):
            entry["attempt"] = number + attempts_before
            attempts = max(attempts, number + attempts_before)
        if isinstance(number := entry.get("number"), int):
            entry["number"] = number + faults_before
            faults = max(faults, number + faults_before)
        yield entry


def _lines(client: MlflowClient, run_id: str) -> Iterable[Entry]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            if not any(each.path == f"{FOLDER}/events.jsonl" for each in client.list_artifacts(run_id, FOLDER)):
                return
            text = Path(client.download_artifacts(run_id, f"{FOLDER}/events.jsonl", folder)).read_text(errors="replace")
        except (MlflowException, OSError):
            return
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _job(run: Run) -> Entry:
    info = run.info
    started = (info.start_time or 0) / 1000
    return {"kind": "job", "time": started, "started": started, "run_name": info.run_name, "params": run.data.params}


def _children(client: MlflowClient, run: Run) -> list[Run]:
    text = f"tags.`{PARENT}` = '{run.info.run_id}'"
    order = ["attributes.start_time ASC"]
    found = client.search_runs([run.info.experiment_id], text, max_results=_MOST_ATTEMPTS, order_by=order)
    return [child for child in found if retold_attempts.number(child)]


def _points(client: MlflowClient, children: list[Run]) -> dict[int, list[Point]]:
    """Attempt -> its own points."""
    numbers = {child.info.run_id: retold_attempts.number(child) for child in children}
    found: dict[int, list[Point]] = {}
    for key in {key: None for child in children for key in child.data.metrics if not key.startswith(NOT_CURVES)}:
        having = [child.info.run_id for child in children if key in child.data.metrics]
        for run_id, samples in sampled(client, having, key, _ATTEMPT_POINTS).items():
            found.setdefault(numbers[run_id], []).extend((key, *sample) for sample in samples)
    return found


def _histories(client: MlflowClient, run: Run, *, curves: bool) -> list[Point]:
    keys = [key for key in run.data.metrics if key.startswith(NOT_CURVES) != curves]
    run_id = run.info.run_id
    return [(key, *sample) for key in keys for sample in sampled(client, [run_id], key).get(run_id, [])]


def _close(record: JobRecord, run: Run, known: bool) -> None:
    """The end that the journal did not come to say: the tags' or the run's own."""
    tags, end = run.data.tags, (run.info.end_time or 0) / 1000
    if record.ended is None and end:
        outcome = tags.get("resilience.outcome", "running")
        outcome = _OUTCOMES.get(run.info.status, "failed") if outcome == "running" else outcome
        record.add({"kind": "job_ended", "time": end, "outcome": outcome, "text": tags.get("resilience.reaped", "")})
    if not known:
        record.reproducible = {"value": False, "reason": "nothing was recorded of how this run was trained"}
