"""Runs of MLflow with all that a comparison asks for, in few requests however many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mlflow.entities import LoggedModel, LoggedModelStatus, Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from mlflow_resilience.comparison import translating
from mlflow_resilience.comparison.finding import PARENT
from mlflow_resilience.comparison.pairs import reference
from mlflow_resilience.comparison.values import ComparedRun
from mlflow_resilience.summary import one_line
from mlflow_resilience.tracking.history import sampled

MOST_CURVES = 10  # runs whose curves are read: more cannot be told apart in a figure
MOST_KEYS = 12
POINTS = 600  # of a curve
_FEW = 12  # runs whose models are asked for one by one
_LONGEST_LINEAGE = 50
_RESUMED = "resilience.resumed_from_run"


def read(client: MlflowClient, found: Sequence[Run]) -> list[ComparedRun]:
    """The runs as plain values: lineage, digests, and curves of the first few and of the one that others are
    measured by."""
    digests, lineages = _digests(client, found), _Lineages(client, found)
    runs = [
        replace(lineages.with_earlier(run, translating.compared(run)), digest=digests.get(run.info.run_id, ""))
        for run in found
    ]
    if not runs:
        return []
    first = reference(runs)
    shown = [first, *(run for run in runs if run is not first)][:MOST_CURVES]
    told = {run.run_id: replace(run, last_words=_last_words(client, run)) for run in shown}
    curves = _curves(client, shown)
    return [replace(told.get(run.run_id, run), curves=curves.get(run.run_id, {})) for run in runs]


def _curves(client: MlflowClient, runs: Sequence[ComparedRun]) -> dict[str, dict[str, Any]]:
    """Run -> metric -> points, of the metrics that most runs have."""
    counted = Counter(key for run in runs for key in run.metrics)
    keys = sorted(counted, key=lambda key: (-counted[key], "loss" not in key, key))[:MOST_KEYS]
    curves: dict[str, dict[str, Any]] = {}
    for key in keys:
        having = [run.run_id for run in runs if key in run.metrics]
        for run_id, points in sampled(client, having, key, POINTS).items():
            curves.setdefault(run_id, {})[key] = [(step, value) for step, value, _ in points]
    return curves


def _digests(client: MlflowClient, runs: Sequence[Run]) -> dict[str, str]:
    """Run -> digest of its final model."""
    experiments = list(dict.fromkeys(run.info.experiment_id for run in runs))
    texts = ["name = 'model'"]
    if len(runs) <= _FEW:
        texts = [f"name = 'model' AND source_run_id = '{run.info.run_id}'" for run in runs]
    found: dict[str, str] = {}
    for text in texts:
        for model in _models(client, experiments, text):
            if model.status == LoggedModelStatus.READY:
                found.setdefault(str(model.source_run_id), str(model.tags.get("resilience.digest") or ""))
    return found


def _models(client: MlflowClient, experiments: list[str], text: str) -> Iterable[LoggedModel]:
    """Newest first; a store that knows no logged models has none."""
    order = [{"field_name": "creation_timestamp", "ascending": False}]
    token = None
    for _ in range(10):
        try:
            page = client.search_logged_models(experiments, text, max_results=50, order_by=order, page_token=token)
        except (MlflowException, NotImplementedError):
            return
        yield from page
        token = page.token
        if not token:
            return


class _Lineages:
    """What the jobs that a run goes on from add to it, each of them asked for once."""

    def __init__(self, client: MlflowClient, runs: Sequence[Run]) -> None:
        self._client = client
        self._tags = {run.info.run_id: run.data.tags for run in runs}

    def with_earlier(self, run: Run, compared: ComparedRun) -> ComparedRun:
        """The run with the changes of its whole lineage, and with lost steps of its own alone."""
        earlier = list(self._earlier(run.data.tags))
        if not earlier:
            return compared
        changes = [change for tags in reversed(earlier) for change in translating.changes(tags)]
        before = translating.whole(earlier[0].get("resilience.lineage_lost_steps")) or 0
        lost = None if compared.lost_steps is None else max(0, compared.lost_steps - before)
        return replace(compared, changes=tuple(dict.fromkeys([*changes, *compared.changes])), lost_steps=lost)

    def _earlier(self, tags: dict[str, str]) -> Iterable[dict[str, str]]:
        for _ in range(_LONGEST_LINEAGE):
            source = tags.get(_RESUMED)
            if not source:
                return
            if source not in self._tags:
                try:
                    self._tags[source] = self._client.get_run(source).data.tags
                except MlflowException:
                    self._tags[source] = {}
            tags = self._tags[source]
            yield tags


def _last_words(client: MlflowClient, run: ComparedRun) -> str:
    """The exception that the last attempt of a failed job ended with."""
    if run.outcome != "failed" or not run.attempts:
        return ""
    text = f"tags.`{PARENT}` = '{run.run_id}'"
    last = client.search_runs([run.experiment_id], text, max_results=1, order_by=["attributes.start_time DESC"])
    tags = last[0].data.tags if last else {}
    told = (tags.get("resilience.exception_type", ""), tags.get("resilience.exception_message", ""))
    return one_line(": ".join(part for part in told if part), 400)
