"""Keeps the rendered artifacts up to date: at the end, and now and then while something changes."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.spool.summary import description_markdown
from mlflow_resilience.summary import verdict
from mlflow_resilience.tracking import documents
from mlflow_resilience.tracking.continuing import Continuing
from mlflow_resilience.tracking.delivery import Delivery
from mlflow_resilience.tracking.operations import SendFile
from mlflow_resilience.tracking.rendering import Renderers

EVERY_SECONDS = 30.0
SHARE = 40  # and so many times the processor time that it took last: training comes first
_log = logging.getLogger(__name__)


class EventFiles:
    """``events.jsonl`` and ``quarantine.jsonl`` on local disk, written as the journal is read (from its start)."""

    def __init__(self, folder: JobFolder) -> None:
        self.events = folder.artifacts / "events.jsonl"
        self.quarantine = folder.artifacts / "quarantine.jsonl"
        self.events.unlink(missing_ok=True)
        self.quarantine.unlink(missing_ok=True)

    def add(self, entry: Entry) -> bool:
        """Take in the next entry; whether it was an event."""
        line = documents.event_line(entry)
        if line is None:
            return False
        _append(self.events, line)
        if quarantined := documents.quarantine_line(entry):
            _append(self.quarantine, quarantined)
        return True


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


class Publisher:
    """Sends what has changed since it was last sent. A renderer that fails is noted, and stops nothing."""

    def __init__(self, files: EventFiles, renderers: Renderers) -> None:
        self._files, self._renderers = files, renderers
        self._outbox = files.events.parent / "outbox"
        self._outbox.mkdir(exist_ok=True)
        self._pause = EVERY_SECONDS
        self._sent: dict[str, str] = {}
        self._changed = False
        self._warm = False  # the first time imports what draws, which tells nothing of the next
        self._last = time.monotonic()

    def mark(self) -> None:
        """Something has happened that the documents should show."""
        self._changed = True

    def due(self) -> bool:
        """Whether to publish now, while the job runs."""
        return self._changed and time.monotonic() - self._last >= self._pause

    def publish(self, record: JobRecord, delivery: Delivery, earlier: Continuing) -> None:
        """Send all that has changed. Errors that may pass are raised; a second call goes on from there."""
        self._last, self._changed, started = time.monotonic(), False, time.thread_time()
        was_warm = self._warm
        delivery.note(description_markdown(record, verdict(record).sentence))
        for file in (self._files.events, self._files.quarantine):
            if file.exists():
                self._send(file.name, earlier.earlier_lines(file.name) + file.read_bytes(), delivery)
        table = earlier.table(documents.attempts_table(record))
        self._send("attempts.json", table.encode(), delivery)
        delivery.table_tag(f"{documents.FOLDER}/attempts.json")
        for path, data in self._rendered(record, delivery):
            self._send(path, data, delivery)
        spent, self._warm = time.thread_time() - started, True
        self._pause = max(EVERY_SECONDS, SHARE * spent) if was_warm else EVERY_SECONDS

    def _send(self, path: str, data: bytes, delivery: Delivery) -> None:
        digest = hashlib.sha256(data).hexdigest()
        if self._sent.get(path) == digest:
            return
        local = self._outbox / Path(path).name
        local.write_bytes(data)
        delivery.execute(SendFile("job", str(local), f"{documents.FOLDER}/{Path(path).parent}"))
        self._sent[path] = digest

    def _rendered(self, record: JobRecord, delivery: Delivery) -> Iterator[tuple[str, bytes]]:
        for path, render in self._renderers.items():
            try:
                data = render(record)
            except Exception as error:
                _log.exception("%s could not be made", path)
                delivery.problem(f"{documents.FOLDER}/{path}", f"could not be made: {type(error).__name__}: {error}")
                continue
            if data:
                yield path, data
