"""The curve of the job that this one goes on from: brought into its journal beside the training, which never waits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from mlflow.tracking import MlflowClient

from mlflow_resilience.spool import atomic
from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.tracking import history, remote_jobs
from mlflow_resilience.tracking.pace import Pace
from mlflow_resilience.tracking.refusals import judge
from mlflow_resilience.tracking.scout import Scout

CARRIED = "carried-points.json"  # the points; or the run that holds them, where this machine has none of them
PAGE = 10_000  # points that one look takes
TRIES = 5  # of a page that does not come, where the server is there

_log = logging.getLogger(__name__)


class Carrying:
    """One page a look, so that delivery goes on in between. A page that cannot be had costs the rest of its metric,
    and that is said."""

    def __init__(self, folder: JobFolder, scout: Scout, client: Callable[[], MlflowClient]) -> None:
        self._folder, self._scout, self._client = folder, scout, client
        self._keys: list[str] | None = None
        self._token: str | None = None
        self._pace = Pace()

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to bring yet."""
        return self._scout.to_carry is not None

    def look(self) -> None:
        """Bring the next page, if there is one and its time has come."""
        resumed = self._scout.to_carry
        if resumed is None or not self._pace.is_due():
            return
        try:
            self._bring(resumed)
            self._pace.succeeded()
        except Exception as error:
            self._wait(error)

    def _bring(self, resumed: Entry) -> None:
        told = atomic.read_json(self._folder.artifacts / CARRIED)
        step = int(resumed.get("from_step") or 0)
        if not isinstance(told, dict):
            self._scout.carry([point for point in told or () if point[1] <= step])
            return
        client, run_id = self._client(), str(told.get("run_id"))
        if self._keys is None:
            self._keys = remote_jobs.curves(client, run_id)
        points: list[Any] = []
        if self._keys:
            key = self._keys[0]
            samples, self._token = history.page(client, run_id, key, PAGE, self._token)
            points = [(key, *sample) for sample in samples if sample[0] <= step]
        if self._token is None:
            del self._keys[:1]
        self._scout.carry(points, last=not self._keys)

    def _wait(self, error: Exception) -> None:
        refusal = judge(error)
        self._pace.failed(refusal.seconds)
        if refusal.meaning == "refused" or (refusal.meaning == "server_error" and self._pace.failures >= TRIES):
            self._leave_out(refusal.text)

    def _leave_out(self, why: str) -> None:
        """Go on with the next metric; without any, the run itself could not be read."""
        what = self._keys[0] if self._keys else "the curves"
        reason = (why.splitlines() or ["?"])[0]
        text = f"{what} of the earlier job could not be carried over whole: {reason}"
        _log.warning("%s", text)
        self._scout.append("event", name="curve_left_out", attempt=0, step=0, text=text, data={"key": what})
        self._keys, self._token = (self._keys or [])[1:], None
        self._scout.carry([], last=not self._keys)
        self._pace.succeeded()
