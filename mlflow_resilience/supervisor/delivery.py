"""The sender: started, and started again when it dies; it outlives us if it must."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool.folder import JobFolder

GAVE_UP = 3  # the sender's exit code for that

#: What is said of a job that may not train before MLflow has answered.
UNREACHABLE = "the tracking server is out of reach, and tracking is required"
REQUIRE_SETTING = "MLFLOW_RESILIENCE_REQUIRE_TRACKING"
_SECONDS_SETTING, _SECONDS = "MLFLOW_RESILIENCE_TRACKING_SECONDS", 120.0

_LONGEST_PAUSE = 30.0
_LOOK_SECONDS = 0.5


def tracking_seconds() -> float:
    """For so long MLflow may take to answer, where it must. Raises UsageError for a setting that is no number."""
    text = os.environ.get(_SECONDS_SETTING) or str(_SECONDS)
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{_SECONDS_SETTING}={text}: a number of seconds is needed") from None


class SenderKeeper:
    """Keeps one sender process at a job while the job runs."""

    def __init__(self, folder: JobFolder, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._folder, self._command, self._environ = folder, command, environ
        self._process: subprocess.Popen[bytes] | None = None
        self._pause, self._not_before = 1.0, 0.0
        self._job_has_ended = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def keep(self) -> None:
        """Start it if it is not running; after a death not at once each time."""
        if self.is_running() or self.has_delivered() or self.has_given_up() or time.monotonic() < self._not_before:
            return
        self._not_before = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        self._start()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def job_has_ended(self) -> None:
        """From now on the sender ends by itself, once MLflow has everything."""
        self._job_has_ended = True
        if not self.is_running():
            self._process, self._not_before = None, 0.0  # it ended too early to know

    def has_delivered(self) -> bool:
        """Whether MLflow has everything."""
        return self._job_has_ended and self._process is not None and self._process.poll() == 0

    def has_given_up(self) -> bool:
        """Whether it has left the rest on disk, for another time."""
        return self._job_has_ended and self._process is not None and self._process.poll() == GAVE_UP

    def refusal(self) -> str | None:
        """Why the tracking store cannot be used at all, if it said so."""
        state = self._folder.read_sender_state()
        return str(state.get("message") or "the tracking store is invalid") if state.get("state") == "invalid" else None

    def has_run(self) -> bool:
        """Whether MLflow has answered: the job's run is known."""
        return bool(self._folder.read_sender_state().get("run_id"))

    def _start(self) -> None:
        with self._folder.sender_log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, os.fspath(self._folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environ},
                start_new_session=True,
            )


class Attended(threading.Thread):
    """Looks after the sender of a job that has no supervisor, from within the process that trains."""

    def __init__(self, keeper: SenderKeeper) -> None:
        super().__init__(name="mlflow-resilience-sender", daemon=True)
        self._keeper, self._over, self._pid = keeper, threading.Event(), os.getpid()
        keeper.keep()
        self.start()

    def run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._keeper.keep()

    def await_run(self, seconds: float) -> str | None:
        """Wait until MLflow has answered; what is wrong, where it does not."""
        deadline = time.monotonic() + seconds
        while not self._keeper.has_run():
            if (refusal := self._keeper.refusal()) is not None:
                return refusal
            if time.monotonic() > deadline:
                return UNREACHABLE
            self._over.wait(0.05)
        return None

    def job_has_ended(self) -> None:
        """The job's last word is in its journal: the sender, which is there, delivers the rest by itself."""
        if self._pid != os.getpid():
            return  # a fork of the process has no part in it
        self._over.set()
        self.join()
        self._keeper.job_has_ended()
        self._keeper.keep()
