"""Beside the delivery to MLflow: reads the journal on its own, so that a server that hangs delays no notice."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from mlflow_resilience.notify.arming import armed
from mlflow_resilience.notify.notices import Notices
from mlflow_resilience.notify.sending import SECONDS, NotTold, send
from mlflow_resilience.spool import atomic
from mlflow_resilience.spool.codec import Reader
from mlflow_resilience.spool.folder import JobFolder

_LOOK_SECONDS = 0.5
_TOLD = "notified.json"  # how many notices have been sent, or tried

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def following(folder: JobFolder) -> Iterator[None]:
    """While inside, each notice of the job is sent to its command or URL; leaving waits for the one under way."""
    follower = _Follower(folder)
    follower.start()
    try:
        yield
    finally:
        follower.ending.set()
        follower.join(2 * SECONDS)


class _Follower(threading.Thread):
    def __init__(self, folder: JobFolder) -> None:
        super().__init__(name="notify", daemon=True)
        self._folder = folder
        self._reader, self._notices = Reader(folder.journal), Notices()
        self._seen = 0
        self._failed = False
        self.ending = threading.Event()

    def run(self) -> None:
        while True:
            last = self.ending.is_set()
            try:
                self._look()
            except Exception:  # the delivery goes on without
                _log.exception("nobody can be notified")
                return
            if last:
                return
            self.ending.wait(_LOOK_SECONDS)

    def _look(self) -> None:
        target = armed(self._folder)
        if target is None:
            return
        told = int((atomic.read_json(self._folder.path / _TOLD) or {}).get("told") or 0)
        for entry, _ in self._reader.poll():
            self._notices.run_id = self._folder.read_sender_state().get("run_id") or self._notices.run_id
            notice = self._notices.add(entry)
            if notice is None:
                continue
            self._seen += 1
            if self._seen > told:
                try:
                    send(target, notice)
                except NotTold as failure:
                    self._say(str(failure), notice["step"])
                atomic.write_json(self._folder.path / _TOLD, {"told": self._seen})

    def _say(self, why: str, step: int) -> None:
        """Recorded once: whoever cannot be reached will mostly not be reached the next time either."""
        _log.warning("nobody was notified: %s", why)
        if self._failed:
            return
        self._failed = True
        with contextlib.closing(self._folder.open_journal()) as journal:
            journal.append("event", name="notify_failed", attempt=0, step=step, text=f"notify: {why}", data={})
