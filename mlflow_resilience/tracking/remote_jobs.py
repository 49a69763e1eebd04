"""Earlier jobs that only MLflow knows, and their checkpoints among its LoggedModels."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlflow.entities import LoggedModel, LoggedModelStatus, Run
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracking import MlflowClient

from mlflow_resilience.spool.atomic import sync_folder
from mlflow_resilience.spool.process import host, is_alive
from mlflow_resilience.tracking import heartbeat, naming
from mlflow_resilience.tracking.candidates import Candidate, Question, flag, number
from mlflow_resilience.tracking.compose import EXTRA, STATE_FOLDER
from mlflow_resilience.tracking.local_jobs import KEY_TAG
from mlflow_resilience.tracking.runs import LOCAL_ID

NOT_CURVES = ("memory/", "resilience/", "system/")


def matching(client: MlflowClient, experiment_id: str, question: Question) -> Iterator[Candidate]:
    """The experiment's jobs that ``auto`` may go on with, newest first."""
    text = f"tags.`{KEY_TAG}` = '{question.resume_key}'"
    for run in client.search_runs([experiment_id], text, order_by=["attributes.start_time DESC"], max_results=200):
        found = candidate(run)
        if found.run_id != question.own_run and found.matches(question):
            yield found


def named(client: MlflowClient, name: str) -> Candidate | None:
    """The run whose id this is, or begins so (of an attempt: its job's), or None. Raises UsageError for several."""
    run = naming.find(client, name)
    if run is not None and (parent := run.data.tags.get("mlflow.parentRunId")):
        run = naming.find(client, parent)
    return candidate(run) if run is not None and run.info.lifecycle_stage == "active" else None


def candidate(run: Run) -> Candidate:
    """The run as a candidate, as yet without its checkpoint."""
    return of_tags(run.info.run_id, run.data.tags, run.data.params)


def of_tags(run_id: str, tags: dict[str, str], params: dict[str, Any]) -> Candidate:
    """The same from what a run holds (or held before we wrote to it)."""
    return Candidate(
        job_id=tags.get(LOCAL_ID),
        run_id=run_id,
        resume_key=tags.get(KEY_TAG, ""),
        outcome=tags.get("resilience.outcome", ""),
        alive=is_living(tags),
        epochs=number(params.get("epochs")),
        recover=flag(params.get("recover", "true")),
        fault=str(params.get("fault") or ""),
        host=tags.get("resilience.host", ""),
        pid=int(number(tags.get("resilience.pid"))) or None,
        source=(None, tags.get("resilience.resumed_from_run")),
        params=dict(params),
        lineage={
            key.removeprefix("resilience.lineage_"): number(value)
            for key, value in tags.items()
            if key.startswith("resilience.lineage_")
        },
    )


def is_living(tags: dict[str, str]) -> bool:
    """Whether the job still runs: certain on this host, by its heartbeat on another."""
    if tags.get("resilience.outcome") != "running":
        return False
    if tags.get("resilience.host") == host() and "resilience.pid" in tags:
        return any(_is_process_alive(tags, prefix) for prefix in ("resilience.", "resilience.worker_"))
    return not heartbeat.is_stale(tags.get(heartbeat.TAG))


def has_living_caller(tags: dict[str, str]) -> bool:
    """Whether the run was opened by a process that called `fit` in it and may still end it: certain on this host."""
    if tags.get("resilience.caller_owns_end") != "true":
        return False
    return tags.get("resilience.host") != host() or _is_process_alive(tags, "resilience.")


def _is_process_alive(tags: dict[str, str], prefix: str) -> bool:
    ticks = int(number(tags.get(f"{prefix}pid_start_ticks")))
    return is_alive(int(number(tags.get(f"{prefix}pid"))), ticks or None)


def with_checkpoint(client: MlflowClient, experiment_id: str, found: Candidate) -> Candidate:
    """With the newest READY checkpoint that the run logged, by step."""
    best: LoggedModel | None = None
    token = None
    while True:
        page = client.search_logged_models(
            [experiment_id], f"source_run_id = '{found.run_id}'", max_results=50, page_token=token
        )
        for model in page:
            if model.status == LoggedModelStatus.READY and model.name == "checkpoint" and _newer(model, best):
                best = model
        token = page.token
        if not token:
            break
    return found if best is None else replace(found, step=step_of(best), model_id=best.model_id)


def _newer(model: LoggedModel, other: LoggedModel | None) -> bool:
    return other is None or (step_of(model), model.creation_timestamp) > (step_of(other), other.creation_timestamp)


def step_of(model: LoggedModel) -> int:
    """The global step of a checkpoint model."""
    return int(number(model.tags.get("resilience.step")))


def curves(client: MlflowClient, run_id: str) -> list[str]:
    """The run's training curves by name, those with a point an epoch first."""
    found = (key for key in client.get_run(run_id).data.metrics if not key.startswith(NOT_CURVES))
    return sorted(found, key=lambda key: ("/" in key, key))


def download(client: MlflowClient, model_id: str, step: int, target: Path) -> Path:
    """Fetch the training state into ``target``, a folder of checkpoints; whole or not at all."""
    target.mkdir(parents=True, exist_ok=True)
    final = target / f"step-{step:010d}"
    temporary = target / f".fetching-{step}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        location = client.get_logged_model(model_id).artifact_location
        repository = get_artifact_repository(location)
        fetched = Path(repository.download_artifacts(f"{EXTRA}/{STATE_FOLDER}", str(temporary)))
        inner = sorted(fetched.glob("step-*"))
        shutil.rmtree(final, ignore_errors=True)
        (inner[-1] if inner else fetched).rename(final)
        sync_folder(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target
