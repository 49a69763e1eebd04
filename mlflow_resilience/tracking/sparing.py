"""Models that were superseded before they were sent: during an outage they would fill the disk, and be sent in vain."""

from __future__ import annotations

import shutil
from typing import Any

from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.tracking.operations import LogModel
from mlflow_resilience.tracking.state import SenderState


class Sparing:
    """Knows from the journal, which is read ahead of delivery, what need not be sent any more."""

    def __init__(self, folder: JobFolder, record: JobRecord, state: SenderState) -> None:
        self._folder, self._record, self._state = folder, record, state
        self._seen: set[str] = set()

    def spares(self, operation: LogModel) -> bool:
        """Whether the model is not worth sending: superseded, and not in the store."""
        return str(operation.entry.get("local_id")) in self._record.superseded and not self._is_sent(operation.entry)

    def look(self) -> None:
        """Make room: what was superseded since the last look, and is not sent, goes."""
        fresh = self._record.superseded - self._seen
        if not fresh:
            return
        self._seen |= fresh
        for entry in self._record.models:
            if entry.get("local_id") in fresh and entry.get("delete_after_upload") and not self._is_sent(entry):
                shutil.rmtree(self._folder.path / str(entry.get("folder")), ignore_errors=True)

    def _is_sent(self, entry: dict[str, Any]) -> bool:
        return f"{self._record.job_id}/{entry.get('local_id')}" in self._state.models
