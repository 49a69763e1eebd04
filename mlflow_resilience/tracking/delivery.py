"""Carries operations out in MLflow: each harmless to repeat, none blocking the rest by being refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient, get_tracking_uri

from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.tracking import limits
from mlflow_resilience.tracking.models import Models
from mlflow_resilience.tracking.operations import (
    DropModel,
    EndRun,
    EndScriptRun,
    LogMetrics,
    LogModel,
    LogParams,
    OpenRun,
    Operation,
    RunKey,
    SendFile,
    SendText,
    SetTags,
)
from mlflow_resilience.tracking.refusals import judge
from mlflow_resilience.tracking.runs import Runs, is_ended
from mlflow_resilience.tracking.state import SenderState
from mlflow_resilience.tracking.store import patient

OURS = ("resilience.", "mlflow.note.")
LOGGED_ARTIFACTS, NOTE = "mlflow.loggedArtifacts", "mlflow.note.content"
NOTE_MARK = "\n\n<!-- resilience -->\n"

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Delivery:
    """Executes one operation after the other. Errors that may pass are raised; refusals are noted in the state."""

    def __init__(self, client: MlflowClient, folder: JobFolder, state: SenderState) -> None:
        self._client, self._folder, self.state = client, folder, state
        self.runs = Runs(client, state)
        self.models = Models(client, folder, state, self.problem)
        self._known_steps: dict[str, set[int]] = {}

    def run_id(self, run: RunKey) -> str | None:
        """The run's id in the store; None when it was refused."""
        return self.state.runs.get(str(run))

    def problem(self, what: str, why: str) -> None:
        """Note a refusal, and report it the first time."""
        if self.state.problem(what, why):
            _log.warning("refused: %s: %s", what, why)

    def execute(self, operation: Operation) -> None:
        """Do it. NoSuchRun, and whatever ``refusals.judge`` does not call refused, is raised."""
        if isinstance(operation, OpenRun):
            if operation.run == "job" or self.run_id("job"):
                self.runs.open(operation)
        elif isinstance(operation, DropModel):
            self.models.drop(operation.local_id)
        elif isinstance(operation, LogModel):
            self._model(operation)
        elif isinstance(operation, EndScriptRun):
            self._end_script_run(operation)
        elif isinstance(operation, LogMetrics | LogParams | SetTags | EndRun | SendFile | SendText):
            run_id = self.run_id(operation.run)
            if run_id is not None:
                self._on_run(operation, run_id)

    def _on_run(self, operation: LogMetrics | LogParams | SetTags | EndRun | SendFile | SendText, run_id: str) -> None:
        if isinstance(operation, LogMetrics):
            self._metrics(operation, run_id)
        elif isinstance(operation, LogParams):
            self._params(operation, run_id)
        elif isinstance(operation, SetTags):
            self.tags(operation.run, operation.tags)
        elif isinstance(operation, EndRun):
            self._client.set_terminated(run_id, operation.status, operation.ended_ms)
        elif isinstance(operation, SendFile):
            self._file(operation, run_id)
        else:
            with patient():
                self._client.log_text(run_id, operation.text, limits.folder(operation.path))

    def _model(self, operation: LogModel) -> None:
        run_id = self.run_id("job")
        if run_id is None:
            return
        self.models.log(operation, run_id, self.run_id(operation.metrics_run) or run_id)

    def _end_script_run(self, operation: EndScriptRun) -> None:
        elsewhere = operation.tracking_uri not in ("", get_tracking_uri())
        client = MlflowClient(operation.tracking_uri) if elsewhere else self._client
        try:
            if operation.run_id != self.state.run_id and not is_ended(client.get_run(operation.run_id)):
                client.set_terminated(operation.run_id, operation.status)
        except Exception as error:
            if not elsewhere:
                raise
            self.problem(f"run {operation.run_id} of the script", str(error))  # nothing else waits for another store

    def _in_batches(self, what: str, items: Sequence[T], size: int, send: Callable[[Sequence[T]], Any]) -> None:
        """Send in batches; from a refused batch, send all that is not itself refused."""
        for batch in limits.chunks(items, size):
            try:
                send(batch)
            except Exception as error:
                refusal = judge(error)
                if refusal.meaning == "duplicate" and len(batch) == 1:
                    continue
                if refusal.meaning not in ("refused", "duplicate"):
                    raise
                if len(batch) == 1:
                    self.problem(f"{what} {getattr(batch[0], 'key', '')}".strip(), refusal.text)
                elif _whole_run_is_refused(refusal.text):
                    self.problem(what, refusal.text)
                else:
                    self._in_batches(what, batch, max(len(batch) // 8, 1), send)

    def _metrics(self, operation: LogMetrics, run_id: str) -> None:
        shift = self.state.clock_shift if operation.clock else 0
        adopted = operation.run == "job" and bool(self.state.adopted.get("metrics"))
        metrics = []
        for name, step, value, ms in operation.points:
            key = limits.key(name)
            if adopted and not operation.clock and step in self._steps_there(run_id, key):
                continue
            metrics.append(Metric(key, value, ms, step + shift))
        self._in_batches(
            f"metrics of {_name(operation.run)}:",
            metrics,
            limits.METRICS_A_BATCH,
            lambda batch: self._client.log_batch(run_id, metrics=batch, synchronous=True),
        )

    def _steps_there(self, run_id: str, key: str) -> set[int]:
        """The steps of the curve that the adopted run held already."""
        if key not in self.state.adopted.get("metrics", ()):
            return set()
        if key not in self._known_steps:
            history = self._client.get_metric_history(run_id, key)
            self._known_steps[key] = {metric.step for metric in history}
        return self._known_steps[key]

    def _params(self, operation: LogParams, run_id: str) -> None:
        there = self.state.adopted.get("params", {}) if operation.run == "job" else {}
        params = []
        for name, raw in operation.params.items():
            key, (text, cut) = limits.key(name), limits.value(raw, limits.PARAM)
            if cut:
                self.problem(f"param {key} of {_name(operation.run)}", "over-long, and cut")
            if key not in there:
                params.append(Param(key, text))
            elif there[key].lower() != text.lower():
                self.problem(f"param {key}", f"is {there[key]!r} in the run, and {text!r} now: params cannot change")
        self._in_batches(
            f"params of {_name(operation.run)}:",
            params,
            limits.ITEMS_A_BATCH,
            lambda batch: self._client.log_batch(run_id, params=batch, synchronous=True),
        )

    def tags(self, run: RunKey, tags: dict[str, Any]) -> None:
        """Set a run's tags; over-long values are cut, and it is said."""
        run_id = self.run_id(run)
        if run_id is None:
            return
        items = []
        for name, raw in tags.items():
            key, (text, cut) = limits.key(name), limits.value(raw, limits.TAG)
            if cut and not key.startswith(OURS):
                self.problem(f"tag {key} of {_name(run)}", "over-long, and cut")
            items.append(RunTag(key, text))
        self._in_batches(
            f"tags of {_name(run)}:",
            items,
            limits.ITEMS_A_BATCH,
            lambda batch: self._client.log_batch(run_id, tags=batch, synchronous=True),
        )

    def _file(self, operation: SendFile, run_id: str) -> None:
        path = self._folder.path / operation.path  # an absolute path stays as it is
        folder = limits.folder(operation.folder)
        with patient():
            if path.is_dir():
                self._client.log_artifacts(run_id, str(path), folder)
            else:
                self._client.log_artifact(run_id, str(path), folder)
        if operation.table:
            self.table_tag(f"{folder}/{path.name}")

    def note(self, text: str) -> None:
        """The run's description: what somebody else wrote there stays, ahead of ours."""
        before = str(self.state.adopted.get("tags", {}).get(NOTE, "")).partition(NOTE_MARK)[0]
        self.tags("job", {NOTE: (before + NOTE_MARK if before else "") + text})

    def table_tag(self, path: str) -> None:
        """Say that the artifact is a table, as ``log_table`` does."""
        try:
            known = json.loads(self.state.adopted.get("tags", {}).get(LOGGED_ARTIFACTS, "[]"))
        except ValueError:
            known = []
        if path not in self.state.tables:
            self.state.tables.append(path)
        mine = [{"path": each, "type": "table"} for each in self.state.tables]
        self.tags("job", {LOGGED_ARTIFACTS: json.dumps([*(each for each in known if each not in mine), *mine])})


def _name(run: RunKey) -> str:
    return "the job" if run == "job" else f"attempt {run}"


def _whole_run_is_refused(text: str) -> bool:
    return "lifecycle" in text or "must be in the 'active' state" in text or "not found" in text
