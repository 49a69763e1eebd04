"""Points of metrics, no more of them than are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlflow.store.tracking.rest_store import RestStore
from mlflow.tracking import MlflowClient
from mlflow.utils.rest_utils import http_request

from mlflow_resilience.spool.curve import Sample
from mlflow_resilience.tracking.limits import chunks

MOST = 2500  # of a run, and RUNS_A_REQUEST runs: what a tracking server gives in one answer
RUNS_A_REQUEST = 100
#: All steps there can be. With bounds, SQLite looks a run's points up; without, it reads those of every run.
_FIRST, _LAST = -(2**62), 2**62
_ROUTE = "/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval"


def sampled(client: MlflowClient, run_ids: Sequence[str], key: str, most: int = MOST) -> dict[str, list[Sample]]:
    """For each run that has any, at most about ``most`` points of the metric, evenly taken, by step; the first and
    the last are always among them."""
    found: dict[str, list[Sample]] = {}
    for part in chunks(run_ids, RUNS_A_REQUEST):
        for run_id, sample in _sampled(client, list(part), key, min(most, MOST)):
            found.setdefault(run_id, []).append(sample)
    return {run_id: sorted(samples) for run_id, samples in found.items()}


def page(client: MlflowClient, run_id: str, key: str, most: int, token: str | None) -> tuple[list[Sample], str | None]:
    """The next ``most`` points of the metric, and what to ask for the ones after them with; None at the end."""
    found = client._tracking_client.store.get_metric_history(run_id, key, max_results=most, page_token=token)
    return [(each.step, each.value, each.timestamp) for each in found], found.token or None


def _sampled(client: MlflowClient, run_ids: list[str], key: str, most: int) -> list[tuple[str, Sample]]:
    store = client._tracking_client.store  # the client itself has no way to ask for fewer points
    if isinstance(store, RestStore):
        return _asked(store, run_ids, key, most)
    return [
        (each.run_id, (each.step, each.value, each.timestamp))
        for each in store.get_metric_history_bulk_interval(run_ids, key, most, _FIRST, _LAST)
    ]


def _asked(store: RestStore, run_ids: list[str], key: str, most: int) -> list[tuple[str, Sample]]:
    """As the server's own pages ask for it; of a server without that route, all points."""
    steps = {"start_step": _FIRST, "end_step": _LAST}
    wanted = {"run_ids": run_ids, "metric_key": key, "max_results": most, **steps}
    answer = http_request(store.get_host_creds(), _ROUTE, "GET", params=wanted)
    if answer.status_code != 200:
        return [
            (run_id, (each.step, each.value, each.timestamp))
            for run_id in run_ids
            for each in store.get_metric_history(run_id, key)
        ]
    return [_point(each) for each in answer.json().get("metrics", [])]


def _point(told: dict[str, Any]) -> tuple[str, Sample]:
    return str(told["run_id"]), (int(told.get("step") or 0), float(told["value"]), int(told.get("timestamp") or 0))
