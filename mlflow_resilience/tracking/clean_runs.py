"""The clean run in MLflow that a result is held against."""

from __future__ import annotations

from mlflow.tracking import MlflowClient

from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.undisturbed import RESUME_KEY, CleanRun, wanted

_OUTCOME, _RESUMED = "resilience.outcome", "resilience.resumed_from_run"


def find(client: MlflowClient, experiment_id: str, record: JobRecord) -> CleanRun | None:
    """The newest one of the same resume key and epochs in the experiment. MLflow's errors are raised."""
    if (asked := wanted(record)) is None:
        return None
    key, epochs = (text.replace("'", "") for text in asked)
    text = f"tags.`{RESUME_KEY}` = '{key}' AND tags.`{_OUTCOME}` = 'clean' AND params.epochs = '{epochs}'"
    order = ["attributes.start_time DESC"]
    for run in client.search_runs([experiment_id], text, max_results=20, order_by=order):
        if _RESUMED not in run.data.tags:
            name = f"{run.info.run_name or ''} ({run.info.run_id[:8]})".strip()
            metrics = {each: value for each, value in run.data.metrics.items() if "/" not in each}
            return CleanRun(name, metrics)
    return None
