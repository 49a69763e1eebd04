"""Closes runs that nobody owns any more, so that nothing is left RUNNING by a process that is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from mlflow_resilience.tracking import heartbeat, remote_jobs
from mlflow_resilience.tracking.sync import sync

PARENT = "mlflow.parentRunId"
_MAKING_SECONDS = 300.0
UNOWNED_SECONDS = 86400.0
RUNNING = "attributes.status = 'RUNNING'"


@dataclass(frozen=True)
class Closed:
    """A run that was closed, and why."""

    run_id: str
    why: str


def reap(
    home: Path, tracking_uri: str | None = None, *, unowned: bool = False, older_than: float | None = None
) -> list[Closed]:
    """Close the runs of dead owners: those of this home (with all that waits on disk for them), and those in the
    store whose owner is dead on this host or has missed three heartbeats on another. With ``unowned``, also runs
    that were opened and never begun, ``older_than`` seconds ago (a day, unless given)."""
    closed = [
        Closed(each.run_id or each.job_id, each.message or "its process is gone; delivered from this machine")
        for each in sync(home, tracking_uri=tracking_uri)
        if each.done
    ]
    return closed + reap_store(MlflowClient(tracking_uri), unowned=unowned, older_than=older_than)


def reap_store(client: MlflowClient, *, unowned: bool = False, older_than: float | None = None) -> list[Closed]:
    """The same for what only the store knows."""
    closed = []
    for run in list(_running(client)):
        why = why_dead(client, run) or (
            _why_unowned(run, 86400.0 if older_than is None else older_than) if unowned else None
        )
        if why is not None and _close(client, run, why):
            closed.append(Closed(run.info.run_id, why))
    return closed


def _running(client: MlflowClient) -> Iterator[Run]:
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    token = None
    while experiments:
        page = client.search_runs(experiments, RUNNING, max_results=500, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def why_dead(client: MlflowClient, run: Run) -> str | None:
    """Why the run's owner counts as dead; None when it lives, or the run is none of ours."""
    tags = run.data.tags
    if "resilience.attempt" in tags and PARENT in tags:
        return _why_orphan(client, tags[PARENT])
    outcome = tags.get("resilience.outcome")
    if outcome is None or remote_jobs.is_living(tags) or _is_being_made(run) or remote_jobs.has_living_caller(tags):
        return None
    if outcome != "running":
        return f"its job ended ({outcome})"
    return f"its process {tags.get('resilience.pid', '')} on {tags.get('resilience.host', 'an unknown host')} is gone"


def _is_being_made(run: Run) -> bool:
    """Whether its owner may not have come to say so yet: the run is made first, its tags follow."""
    said = {"resilience.pid", heartbeat.TAG} & run.data.tags.keys()
    return not said and time.time() - run.info.start_time / 1000 < _MAKING_SECONDS


def _why_orphan(client: MlflowClient, parent_id: str) -> str | None:
    try:
        parent = client.get_run(parent_id)
    except MlflowException:
        return None
    if remote_jobs.is_living(parent.data.tags):
        return None
    return f"the job of run {parent_id} is over"


def _why_unowned(run: Run, older_than: float) -> str | None:
    if "resilience.outcome" in run.data.tags or PARENT in run.data.tags:
        return None
    seconds = time.time() - run.info.start_time / 1000
    return f"opened {seconds:.0f} s ago and never begun" if seconds > older_than else None


def _close(client: MlflowClient, run: Run, why: str) -> bool:
    status = {"clean": "FINISHED", "recovered": "FINISHED", "preempted": "KILLED"}.get(
        run.data.tags.get("resilience.outcome", ""), "FAILED"
    )
    try:
        if run.data.tags.get("resilience.outcome") == "running":
            client.set_tag(run.info.run_id, "resilience.outcome", "failed")
        client.set_tag(run.info.run_id, "resilience.reaped", why)
        client.set_terminated(run.info.run_id, status)
    except MlflowException:
        return False
    return True
