"""The way to the store: one client, what delivers through it, and the heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlflow.tracking import MlflowClient

from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.tracking import retry_after
from mlflow_resilience.tracking.delivery import Delivery
from mlflow_resilience.tracking.heartbeat import Heartbeat
from mlflow_resilience.tracking.state import SenderState


@dataclass(frozen=True)
class Link:
    """Made once; MLflow's client itself connects anew for each call."""

    client: MlflowClient
    delivery: Delivery
    heartbeat: Heartbeat


def connect(folder: JobFolder, state: SenderState, alive: Callable[[], bool]) -> Link:
    """Open the store at MLflow's tracking URI; an embedded database is made where there is none."""
    retry_after.install()
    client = MlflowClient()
    heartbeat = Heartbeat(client, lambda: state.run_id, alive)
    heartbeat.start()
    return Link(client, Delivery(client, folder, state), heartbeat)
