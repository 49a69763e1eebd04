"""The store that jobs of one file share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def database(place: Path, client: Any) -> Path:
    return place / "mlflow.db"


@pytest.fixture(scope="module")
def client(place: Path) -> Any:
    """One store for all these jobs, made before they begin."""
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{place}/mlflow.db")
    client = mlflow.MlflowClient()
    client.create_experiment("test", artifact_location=str(place / "artifacts"))
    return client
