"""Where a training's diagnostics are told: the job's journal, the MLflow run that is open, or nowhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from mlflow_resilience.diagnostics.verdict import Verdict

FOLDER = "resilience"  # among a run's artifacts
NAME = "diagnostics"
_TABLE, _FIGURE = "diagnostics.json", "diagnostics.png"
_A_BATCH = 1000  # metrics that MLflow takes in one call


class Outlet(Protocol):
    """Takes what the callback has to tell. Steps are those of this training."""

    def points(self, step: int, values: Mapping[str, float]) -> None:
        """Metrics of one reading."""

    def verdict(self, step: int, verdict: Verdict) -> None:
        """Found now for the first time."""

    def failed(self, step: int, text: str) -> None:
        """Nothing more will be told."""

    def finish(self, table: Mapping[str, Any], tags: Mapping[str, str], figure: bytes) -> None:
        """The training has ended. ``figure`` is a PNG."""


class JournalOutlet:
    """Tells a job's journal. Files are kept in the folder ``name`` of the job's ``artifacts``, and of the run's;
    ``attempt`` gives the attempt that is open, ``first_step`` the steps that were done before this fit."""

    def __init__(
        self, journal: Any, attempt: Callable[[], int], artifacts: Path, name: str = NAME, first_step: int = 0
    ) -> None:
        self._journal, self._attempt, self._first = journal, attempt, first_step
        self._artifacts, self._name = artifacts, name

    def points(self, step: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        points = [[key, self._first + step, value, now] for key, value in values.items()]
        self._journal.append("points", attempt=self._attempt(), points=points)

    def verdict(self, step: int, verdict: Verdict) -> None:
        self._event("diagnostics", step, str(verdict), verdict.to_dict())

    def failed(self, step: int, text: str) -> None:
        self._event("diagnostics_failed", step, text, {})

    def finish(self, table: Mapping[str, Any], tags: Mapping[str, str], figure: bytes) -> None:
        folder = self._artifacts / self._name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _TABLE).write_text(json.dumps(table, indent=1) + "\n")
        (folder / _FIGURE).write_bytes(figure)
        for name in (_TABLE, _FIGURE):
            self._journal.append("artifact", run="job", path=str(folder / name), folder=f"{FOLDER}/{self._name}")
        self._journal.append("tags", run="job", tags=dict(tags))

    def _event(self, name: str, step: int, text: str, data: dict[str, Any]) -> None:
        self._journal.append("event", name=name, attempt=self._attempt(), step=self._first + step, text=text, data=data)


class RunOutlet:
    """Keeps all until the training has ended, and then logs it to one MLflow run: training waits for no server."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._points: list[tuple[str, float, int, int]] = []

    def points(self, step: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self._points += [(key, value, now, step) for key, value in values.items()]

    def verdict(self, step: int, verdict: Verdict) -> None:
        pass  # the tags at the end have it

    def failed(self, step: int, text: str) -> None:
        pass  # it was a warning already

    def finish(self, table: Mapping[str, Any], tags: Mapping[str, str], figure: bytes) -> None:
        import tempfile

        from mlflow import MlflowClient
        from mlflow.entities import Metric, RunTag

        client = MlflowClient()
        told = [Metric(_key(key), value, now, step) for key, value, now, step in self._points]
        for start in range(0, len(told), _A_BATCH):
            client.log_batch(self._run_id, metrics=told[start : start + _A_BATCH])
        client.log_batch(self._run_id, tags=[RunTag(key, value) for key, value in tags.items()])
        client.log_dict(self._run_id, dict(table), f"{FOLDER}/{NAME}/{_TABLE}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / _FIGURE
            path.write_bytes(figure)
            client.log_artifact(self._run_id, str(path), f"{FOLDER}/{NAME}")


def active_run() -> RunOutlet | None:
    """Of the MLflow run that this thread has open; None where MLflow was not even imported."""
    mlflow = sys.modules.get("mlflow")
    run = mlflow.active_run() if mlflow is not None else None
    return RunOutlet(run.info.run_id) if run is not None else None


def _key(name: str) -> str:
    """As MLflow takes it."""
    return "".join(each if each.isalnum() or each in "/_-. :" else "_" for each in name)[:250]
