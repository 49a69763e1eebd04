"""The MLflow store that a command reads, opened so that what is wrong with it is one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow_resilience.errors import TrackingError, UsageError


@contextmanager
def client_of(tracking_uri: str | None) -> Iterator[tuple[Any, str]]:
    """A client and the address it asks. MLflow's errors become ours; no database is made where there is none."""
    from mlflow_resilience.tracking.store import absolute, patient, prepare_environment, why_never

    prepare_environment()
    import mlflow
    from mlflow.exceptions import MlflowException

    uri = absolute(tracking_uri or mlflow.get_tracking_uri())
    reason = why_never(uri) or _why_empty(uri)
    if reason is not None:
        raise UsageError(reason)
    mlflow.set_tracking_uri(uri)
    try:
        with patient():
            yield mlflow.MlflowClient(uri), uri
    except MlflowException as error:
        from mlflow_resilience.core.redaction import redact

        raise TrackingError(f"MLflow at {redact(uri)}: {(redact(str(error)) or 'failed').splitlines()[0]}") from error


def _why_empty(uri: str) -> str | None:
    path = uri.removeprefix("sqlite:///")
    return f"there is no tracking database {path}" if path != uri and not Path(path).exists() else None
