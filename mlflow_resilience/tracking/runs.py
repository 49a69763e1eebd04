"""Whose MLflow run is it? Experiments, the job's run adopted or made, attempts as its children."""

from __future__ import annotations

import getpass
import os
from typing import Any

from mlflow.entities import Run, RunStatus, ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from mlflow_resilience.tracking import heartbeat
from mlflow_resilience.tracking.operations import OpenRun
from mlflow_resilience.tracking.state import SenderState

LOCAL_ID = "resilience.local_id"
CLOCKED = "memory/"
MISSING = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


class NoSuchRun(LookupError):
    """The run that the caller named is not there, or deleted."""


def find_experiment(client: MlflowClient, name: str | None, experiment_id: str | None) -> str:
    """The experiment's id; one that is named and not there is made."""
    if experiment_id:
        return str(experiment_id)
    name = name or os.environ.get("MLFLOW_EXPERIMENT_NAME")
    if not name:
        return os.environ.get("MLFLOW_EXPERIMENT_ID") or "0"
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name))
        except MlflowException as error:
            found = client.get_experiment_by_name(name)  # another process was faster
            if found is None:
                raise error
    return str(found.experiment_id)


def find_by_local_id(client: MlflowClient, experiment_id: str, local_id: str) -> list[Run]:
    """The runs that carry our local id, oldest first; more than one only when a creation was answered too late."""
    found = client.search_runs(
        [experiment_id], f"tags.`{LOCAL_ID}` = '{local_id}'", ViewType.ACTIVE_ONLY, order_by=["attributes.start_time"]
    )
    return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))


def is_ended(run: Run) -> bool:
    """Whether the run has a terminal status."""
    return bool(RunStatus.is_terminated(RunStatus.from_string(run.info.status)))


class Runs:
    """Opens runs and remembers them in the state."""

    def __init__(self, client: MlflowClient, state: SenderState) -> None:
        self._client, self._state = client, state

    def open(self, operation: OpenRun) -> None:
        """Adopt, find or make the run; doing it again changes nothing."""
        key = str(operation.run)
        if key in self._state.runs:
            return
        run_id = self._adopt(operation) if operation.run_id else self._find_or_make(operation)
        self._state.runs[key] = run_id
        if key == "job":
            self._state.run_id = run_id

    def _adopt(self, operation: OpenRun) -> str:
        run_id = str(operation.run_id)
        try:
            run = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code in MISSING:
                raise NoSuchRun(f"there is no run {run_id} to go on in") from error
            raise
        if run.info.lifecycle_stage != "active":
            raise NoSuchRun(f"the run {run_id} is deleted")
        self._state.experiment_id = run.info.experiment_id
        if not self._state.adopted:
            self._state.adopted = _snapshot(run)
            if any(key.startswith(CLOCKED) for key in run.data.metrics):
                self._state.clock_shift = max((operation.started_ms - run.info.start_time) // 1000, 0)
        if is_ended(run) and operation.reopen:
            self._client.update_run(run_id, status="RUNNING")
        for key, value in {**operation.tags, **_first_tags(operation)}.items():
            self._client.set_tag(run_id, key, value)
        return run_id

    def _find_or_make(self, operation: OpenRun) -> str:
        if self._state.experiment_id is None:
            self._state.experiment_id = find_experiment(self._client, operation.experiment, operation.experiment_id)
        experiment_id = self._state.experiment_id
        if found := find_by_local_id(self._client, experiment_id, operation.local_id):
            return str(found[0].info.run_id)
        tags = {**operation.tags, **_first_tags(operation), "mlflow.user": _user()}
        if operation.run != "job":
            tags["mlflow.parentRunId"] = self._state.runs["job"]
        if operation.local_id not in self._state.ambiguous:
            self._state.ambiguous.append(operation.local_id)
        run = self._client.create_run(experiment_id, operation.started_ms, tags, operation.name)
        self._state.ambiguous.remove(operation.local_id)
        return str(run.info.run_id)

    def fold_twins(self) -> None:
        """Where a creation was answered too late to be seen, delete what was made twice."""
        for local_id in list(self._state.ambiguous):
            mine = set(self._state.runs.values())
            for run in find_by_local_id(self._client, str(self._state.experiment_id), local_id):
                if run.info.run_id not in mine:
                    self._client.delete_run(run.info.run_id)
            self._state.ambiguous.remove(local_id)


def _snapshot(run: Run) -> dict[str, Any]:
    return {
        "status": run.info.status,
        "start_time": run.info.start_time,
        "tags": dict(run.data.tags),
        "params": dict(run.data.params),
        "metrics": sorted(run.data.metrics),
    }


def _first_tags(operation: OpenRun) -> dict[str, str]:
    beat = {heartbeat.TAG: heartbeat.now()} if operation.run == "job" else {}
    return {LOCAL_ID: operation.local_id, **beat}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
