"""Which runs are meant. MLflow is asked here."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow.entities import Experiment, Run, ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from mlflow_resilience.errors import UsageError
from mlflow_resilience.tracking import retelling
from mlflow_resilience.tracking.runs import MISSING

PARENT, COMPARISON, OUTCOME = "mlflow.parentRunId", "resilience.comparison", "resilience.outcome"
DRILL = "resilience.drill"
MOST_RUNS = 200
NEWEST = ["attributes.start_time DESC"]


def named(client: MlflowClient, run_ids: Sequence[str]) -> list[Run]:
    """The runs with these ids, or whose ids begin so, each once; of an attempt, its job's. Raises UsageError."""
    found: dict[str, Run] = {}
    for run_id in run_ids:
        run = _job_run(client, run_id)
        found.setdefault(run.info.run_id, run)
    if len(found) < 2:
        raise UsageError("two different runs are needed, or --experiment NAME")
    return list(found.values())


def _job_run(client: MlflowClient, run_id: str) -> Run:
    run = retelling.find(client, run_id)
    if run is None:
        raise UsageError(f"there is no run {run_id}")
    if run.data.tags.get(COMPARISON) == "true":
        raise UsageError(f"the run {run_id} is a comparison itself")
    return run


def experiment(client: MlflowClient, name: str) -> Experiment:
    """The experiment of this name or id. Raises UsageError."""
    found = client.get_experiment_by_name(name)
    if found is None and name.isdigit():
        try:
            found = client.get_experiment(name)
        except MlflowException as error:
            if error.error_code not in MISSING:
                raise
    if found is None:
        raise UsageError(f"there is no experiment {name}")
    if found.lifecycle_stage != "active":
        raise UsageError(f"the experiment {name} is deleted")
    return found


def of_experiment(client: MlflowClient, experiment_id: str, outcomes: Sequence[str]) -> tuple[list[Run], bool]:
    """The newest runs of the experiment that are neither attempts nor comparisons nor drills, with one of these
    outcomes if any are given; and whether there are more."""
    if outcomes:
        filters = [f"tags.`{OUTCOME}` = '{outcome}'" for outcome in outcomes]
    else:
        others = f"tags.`{OUTCOME}` IS NULL AND tags.`{PARENT}` IS NULL AND tags.`{COMPARISON}` IS NULL"
        filters = [f"tags.`{OUTCOME}` IS NOT NULL", f"{others} AND tags.`{DRILL}` IS NULL"]
    runs = [
        run
        for text in filters
        for run in client.search_runs([experiment_id], text, ViewType.ACTIVE_ONLY, MOST_RUNS + 1, NEWEST)
    ]
    runs.sort(key=lambda run: run.info.start_time or 0, reverse=True)
    return runs[:MOST_RUNS], len(runs) > MOST_RUNS
