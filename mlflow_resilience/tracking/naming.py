"""A run that MLflow holds, called by its id or by the beginning of it."""

from __future__ import annotations

import re

from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from mlflow_resilience.spool import naming
from mlflow_resilience.tracking.runs import MISSING

_WHOLE = 32  # characters of a run's id
_ENOUGH = 20  # runs that begin alike: that it is more than one is all that matters


def find(client: MlflowClient, name: str) -> Run | None:
    """The run, deleted ones too; None where there is none. Raises UsageError where several begin so."""
    try:
        return client.get_run(name)
    except MlflowException as error:
        if error.error_code not in MISSING:
            raise
    found = naming.only(name, _beginning_with(client, name) if _is_beginning(name) else ())
    return None if found is None else client.get_run(found)


def _is_beginning(name: str) -> bool:
    return naming.FEWEST <= len(name) < _WHOLE and re.fullmatch("[0-9a-f]+", name) is not None


def _beginning_with(client: MlflowClient, name: str) -> list[str]:
    experiments = [each.experiment_id for each in client.search_experiments(ViewType.ALL, max_results=1000)]
    found = client.search_runs(experiments, f"attributes.run_id LIKE '{name}%'", ViewType.ALL, _ENOUGH)
    return [str(each.info.run_id) for each in found]
