"""The MLflow store of a drill: one database for all cells, in which each has an experiment of its own."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

from mlflow_resilience.tracking.store import prepare_environment


def say_less() -> None:
    """A new database is nothing to be told of."""
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)


class Store:
    """A database in ``folder``, made when it is needed first: that takes MLflow seconds."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"sqlite:///{folder / 'mlflow.db'}"
        self._lock = threading.Lock()
        self._opened: Any = None

    @property
    def _client(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = _opened(self.uri)
            return self._opened

    def experiment(self, name: str, artifacts: Path) -> tuple[str, str]:
        """A new experiment: its name and id. A job resumes only within one, and so never that of another cell."""
        unique = f"{name}-{uuid4().hex[:6]}"
        return unique, str(self._client.create_experiment(unique, artifact_location=artifacts.as_uri()))

    def running(self, experiment_id: str) -> list[str]:
        """The runs in it that nobody has ended."""
        found = self._client.search_runs([experiment_id], "attributes.status = 'RUNNING'")
        return [str(run.info.run_name or run.info.run_id) for run in found]


def _opened(uri: str) -> Any:
    """A client whose tables are there: no job's sender makes them at the same time as another."""
    prepare_environment()
    from mlflow import MlflowClient

    say_less()
    client = MlflowClient(uri)
    client.search_experiments(max_results=1)
    return client
