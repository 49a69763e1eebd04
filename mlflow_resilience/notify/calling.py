"""Notices to a Python function, in the process that trains, on a thread of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from mlflow_resilience.core.redaction import redact
from mlflow_resilience.notify.notices import Notices
from mlflow_resilience.spool.journal import Journal

SECONDS = 10.0  # that the function may take at the end, when nothing is left but to wait for it


class Caller:
    """Hears of a journal's entries, and tells a function of those that are worth it; failures go into the journal."""

    def __init__(self, function: Callable[[dict[str, Any]], object], journal: Journal, notices: Notices) -> None:
        self._function, self._journal, self._notices = function, journal, notices
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failed = False

    def __call__(self, entry: dict[str, Any]) -> None:
        """One more entry."""
        notice = self._notices.add(entry)
        if notice is None:
            return
        self._queue.put(notice)
        if self._thread is None:
            self._thread = threading.Thread(target=self._call, name="notify", daemon=True)
            self._thread.start()

    def close(self, seconds: float = SECONDS) -> None:
        """No more is told; a call under way is waited for, so long and no longer."""
        if self._thread is None:
            return
        self._queue.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._say(f"the function took longer than {seconds:g} s")
        self._thread = None

    def _call(self) -> None:
        while (notice := self._queue.get()) is not None:
            try:
                self._function(notice)
            except Exception as error:
                self._say(redact(f"the function raised {type(error).__name__}: {error}"))

    def _say(self, why: str) -> None:
        if not self._failed:
            self._failed = True
            self._journal.append("event", name="notify_failed", attempt=0, step=0, text=f"notify: {why}", data={})


def caller(journal: Journal, notify: object, *, job_id: str, run_id: str | None) -> Caller | None:
    """A listener for ``notify``, where that is a function."""
    if not callable(notify):
        return None
    return Caller(notify, journal, Notices(within=True, job_id=job_id, run_id=run_id))
