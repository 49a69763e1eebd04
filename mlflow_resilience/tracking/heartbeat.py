"""The heartbeat tag, from a thread of its own: ahead of everything that waits to be sent."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from mlflow.entities import RunStatus
from mlflow.tracking import MlflowClient

TAG = "resilience.heartbeat"
SECONDS = float(os.environ.get("MLFLOW_RESILIENCE_HEARTBEAT_SECONDS") or 15.0)
MISSED = 3  # beats after which a foreign owner counts as dead

_log = logging.getLogger(__name__)


def now() -> str:
    """The tag's value: ISO time, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def age(value: str | None) -> float | None:
    """Seconds since the heartbeat; None when there is none that can be read."""
    if not value:
        return None
    try:
        beat = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (datetime.now(UTC) - (beat if beat.tzinfo else beat.replace(tzinfo=UTC))).total_seconds()


def is_stale(value: str | None) -> bool:
    """Whether so many beats were missed that the owner counts as dead."""
    seconds = age(value)
    return seconds is None or seconds > MISSED * SECONDS


class Heartbeat:
    """Beats while ``alive()``; sets ``closed_by_other`` when somebody ended the run of a living job."""

    def __init__(self, client: MlflowClient, run_id: Callable[[], str | None], alive: Callable[[], bool]) -> None:
        self._client, self._run_id, self._alive = client, run_id, alive
        self._stop = threading.Event()
        self.closed_by_other = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat as soon as there is a run."""
        self._thread.start()

    def stop(self) -> None:
        """No beat begins after this."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            run_id = self._run_id()
            if run_id is not None and self._alive():
                self._beat(run_id)
            self._stop.wait(SECONDS if run_id is not None else 0.1)

    def _beat(self, run_id: str) -> None:
        try:
            self._client.set_tag(run_id, TAG, now())
            status = RunStatus.from_string(self._client.get_run(run_id).info.status)
            if RunStatus.is_terminated(status) and self._alive():
                self.closed_by_other.set()
        except Exception as error:  # the delivery meets the same trouble, and reports it
            _log.debug("no heartbeat: %s", error)
