"""LoggedModels: made whole, READY last; superseded ones deleted with their files, unless somebody needs them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus, Metric
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracking import MlflowClient

from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.tracking import compose, limits
from mlflow_resilience.tracking.operations import LogModel
from mlflow_resilience.tracking.refusals import judge
from mlflow_resilience.tracking.runs import LOCAL_ID, MISSING
from mlflow_resilience.tracking.state import SenderState
from mlflow_resilience.tracking.store import patient

OURS = ("resilience.", "mlflow.")


class Models:
    """A job's LoggedModels in the store."""

    def __init__(
        self, client: MlflowClient, folder: JobFolder, state: SenderState, problem: Callable[[str, str], None]
    ) -> None:
        self._client, self._folder, self._state, self._problem = client, folder, state, problem

    def log(self, operation: LogModel, run_id: str, metrics_run_id: str) -> None:
        """Make the LoggedModel, or finish one that was begun."""
        entry, local_id = operation.entry, operation.local_id
        source = self._folder.path / str(entry.get("folder"))
        model = self._find(local_id)
        if model is None or model.status != LoggedModelStatus.READY:
            if not source.is_dir():
                self._problem(f"model {entry.get('name')} at step {entry.get('step')}", f"{source} is gone")
                return
            model = self._upload(operation, run_id, metrics_run_id, source, model)
        self._state.models[local_id] = model.model_id
        if entry.get("delete_after_upload"):
            shutil.rmtree(source, ignore_errors=True)

    def _upload(
        self, operation: LogModel, run_id: str, metrics_run_id: str, source: Path, begun: LoggedModel | None
    ) -> LoggedModel:
        entry = operation.entry
        model = begun or self._client.create_logged_model(
            str(self._state.experiment_id),
            name=str(entry.get("name") or "checkpoint"),
            source_run_id=run_id,
            model_type="keras",
            tags=self._tags(operation, source),
        )
        target = self._folder.artifacts / f"upload-{entry.get('local_id')}"
        shutil.rmtree(target, ignore_errors=True)
        try:
            described = Model(
                artifact_path=model.artifact_location, run_id=run_id, model_uuid=model.model_id, model_id=model.model_id
            )
            compose.compose(source, target, described)
            with patient():
                self._client.log_model_artifacts(model.model_id, str(target))
        finally:
            shutil.rmtree(target, ignore_errors=True)
        self._link_metrics(operation, model.model_id, metrics_run_id)
        step = int(entry.get("step") or 0)
        if begun is None or model.model_id not in self._outputs(run_id):
            self._client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step)])
        return self._client.finalize_logged_model(model.model_id, "READY")

    def _tags(self, operation: LogModel, source: Path) -> dict[str, str]:
        entry = operation.entry
        tags = {
            LOCAL_ID: operation.local_id,
            "resilience.loads_standalone": "true" if (source / compose.KERAS_FILE).is_file() else "false",
            **{f"resilience.{key}": entry.get(key) for key in ("step", "epoch", "digest", "attempt")},
            **(entry.get("tags") or {}),
        }
        return {limits.key(key): limits.value(value, limits.TAG)[0] for key, value in tags.items() if value is not None}

    def _link_metrics(self, operation: LogModel, model_id: str, metrics_run_id: str) -> None:
        metrics = [
            Metric(limits.key(key), value, ms, step, model_id=model_id) for key, step, value, ms in operation.metrics
        ]
        if not metrics:
            return
        try:
            self._client.log_batch(metrics_run_id, metrics=metrics, synchronous=True)
        except Exception as error:
            refusal = judge(error)
            if refusal.meaning not in ("refused", "duplicate"):
                raise
            if refusal.meaning == "refused":
                self._problem(f"metrics of model {model_id}", refusal.text)

    def _outputs(self, run_id: str) -> set[str]:
        outputs = self._client.get_run(run_id).outputs
        return {each.model_id for each in outputs.model_outputs} if outputs else set()

    def _find(self, local_id: str) -> LoggedModel | None:
        known = self._state.models.get(local_id)
        if known is not None:
            try:
                return self._client.get_logged_model(known)
            except MlflowException as error:
                if error.error_code not in MISSING:
                    raise
                return None
        found = self._client.search_logged_models(
            [str(self._state.experiment_id)], filter_string=f"tags.`{LOCAL_ID}` = '{local_id}'", max_results=10
        )
        return min(
            found, key=lambda model: (model.status != LoggedModelStatus.READY, model.creation_timestamp), default=None
        )

    def drop(self, local_id: str) -> None:
        """Delete a superseded model with its files; one that is in use stays."""
        model = self._find(local_id)
        if model is None or in_use(self._client, model):
            return
        try:  # the files first: once the model is hidden, nobody would come back for them
            get_artifact_repository(model.artifact_location).delete_artifacts()
        except Exception as error:
            refusal = judge(error)
            if refusal.meaning != "refused":
                raise
            if not isinstance(error, FileNotFoundError):
                self._problem(f"files of model {model.model_id}", refusal.text)
        self._client.delete_logged_model(model.model_id)


def in_use(client: MlflowClient, model: LoggedModel) -> bool:
    """Registered (and so perhaps aliased), tagged by somebody else, or resumed from."""
    if any(not key.startswith(OURS) for key in model.tags):
        return True
    if is_registered(client, model):
        return True
    resumed = client.search_runs(
        [model.experiment_id], f"tags.`resilience.resumed_from_model` = '{model.model_id}'", max_results=1
    )
    return bool(resumed)


def is_registered(client: MlflowClient, model: LoggedModel) -> bool:
    """Whether a model version in the registry is this model. A registry that cannot be asked counts as yes."""
    filters = [f"source_path = 'models:/{model.model_id}'", f"source_path = '{model.artifact_location}'"]
    if model.source_run_id:
        filters.append(f"run_id = '{model.source_run_id}'")
    for text in filters:
        versions: Any = client.search_model_versions(text, max_results=1000)
        if any(version.model_id == model.model_id or model.model_id in (version.source or "") for version in versions):
            return True
    return False
