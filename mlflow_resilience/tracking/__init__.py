"""All that knows MLflow: what is written where, delivery, the way back to an earlier job. Imports MLflow on use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlflow_resilience.tracking.sync import Delivered, sync, waiting

if TYPE_CHECKING:
    from mlflow_resilience.tracking.reaping import Closed

__all__ = ["Delivered", "reap", "sync", "waiting"]


def reap(
    home: Path, tracking_uri: str | None = None, *, unowned: bool = False, older_than: float | None = None
) -> list[Closed]:
    """Close the runs of owners that are gone; see ``tracking.reaping``."""
    from mlflow_resilience.tracking.store import prepare_environment

    prepare_environment()
    from mlflow_resilience.tracking import reaping

    return reaping.reap(home, tracking_uri, unowned=unowned, older_than=older_than)
