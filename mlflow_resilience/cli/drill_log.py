"""Where a drill is logged: checked before it begins, written to when it has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from mlflow_resilience.errors import TrackingError, UsageError

if TYPE_CHECKING:
    from mlflow_resilience.drill.scorecard import Scorecard


class DrillLog:
    """The store, the run that the caller opened, and the model to tag, as far as they are asked for."""

    def __init__(
        self, client: Any = None, uri: str = "", *, experiment: str = "", model: str = "", own_run: str | None = None
    ) -> None:
        self._client, self._uri, self._experiment, self._own_run = client, uri, experiment, own_run
        self._model: Any = None
        self.keys: Sequence[str] = ()  # resume keys, one of which the recipe is to have
        if client is not None and model:
            from mlflow_resilience.drill import publishing

            self._model = publishing.drilled_model(client, model)
            key = publishing.resume_key(client, self._model)
            self.keys = (key,) if key else ()

    @classmethod
    @contextmanager
    def opened(cls, uri: str | None, experiment: str, model: str, *, wanted: bool) -> Iterator[Self]:
        """Raises UsageError where the store can never work, TrackingError where it does not now."""
        if not wanted:
            if model:
                raise UsageError("--model and --no-log do not go together")
            yield cls()
            return
        own_run = os.environ.get("MLFLOW_RUN_ID") or None  # before it is taken out
        from mlflow_resilience.core.redaction import redact
        from mlflow_resilience.tracking.store import absolute, prepare_environment, why_never

        prepare_environment()
        import mlflow
        from mlflow.exceptions import MlflowException

        from mlflow_resilience.drill.store import say_less

        say_less()
        place = absolute(uri or mlflow.get_tracking_uri())
        if (reason := why_never(place)) is not None:
            raise UsageError(reason)
        try:
            yield cls(mlflow.MlflowClient(place), place, experiment=experiment, model=model, own_run=own_run)
        except MlflowException as error:
            told = (redact(str(error)) or "failed").splitlines()[0]
            raise TrackingError(f"MLflow at {redact(place)}: {told}") from error

    def publish(self, card: Scorecard) -> str:
        """Log the scorecard, and tag the model: what opens the run; empty where nothing is logged."""
        if self._client is None:
            return ""
        from mlflow_resilience.cli.last_words import command
        from mlflow_resilience.core.redaction import redact
        from mlflow_resilience.drill import publishing

        run_id = publishing.publish(self._client, card, self._experiment_id(), self._own_run)
        if self._model is not None:
            publishing.tag(self._client, self._model, card, run_id)
        experiment_id = self._client.get_run(run_id).info.experiment_id
        return command({"tracking_uri": redact(self._uri), "experiment_id": experiment_id, "run_id": run_id})

    def _experiment_id(self) -> str:
        """That of the name, made where there is none; of the model's; or MLflow's default."""
        from mlflow_resilience.tracking.runs import find_experiment

        if self._experiment:
            return find_experiment(self._client, self._experiment, None)
        told = os.environ.get("MLFLOW_EXPERIMENT_ID")
        return str(told or (self._model.experiment_id if self._model is not None else "0"))
