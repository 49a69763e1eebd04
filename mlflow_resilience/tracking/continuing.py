"""A job that goes on in the run of an earlier job: its attempts are numbered on, what the earlier one left stays."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

from mlflow_resilience.tracking.documents import FOLDER
from mlflow_resilience.tracking.operations import OpenRun, Operation, SendText, SetTags
from mlflow_resilience.tracking.state import SenderState

FILES = ("events.jsonl", "quarantine.jsonl", "attempts.json")
LINE, ATTEMPTS, FAULTS = "resilience.attempt.", "resilience.attempts", "resilience.faults"
CLASSES, NUMBER = "resilience.failure_classes", "resilience.attempt"
_NUMBERED = re.compile(r"(?<=/attempt-)(\d{3})")

_log = logging.getLogger(__name__)


class Continuing:
    """What the adopted run held of an earlier job; without one, everything passes unchanged."""

    def __init__(self, state: SenderState, folder: Path) -> None:
        self._state, self._folder = state, folder

    @property
    def _tags(self) -> dict[str, str]:
        return dict(self._state.adopted.get("tags", {}))

    @property
    def attempts(self) -> int:
        """How many attempts the run had."""
        return _count(self._tags.get(ATTEMPTS))

    def fetch(self, client: MlflowClient, run_id: str) -> None:
        """Take the earlier job's files, once, before they are written anew."""
        if not self.attempts or self._folder.is_dir():
            return
        temporary = self._folder.with_name(f".{self._folder.name}")
        temporary.mkdir(exist_ok=True)
        there = {Path(file.path).name for file in client.list_artifacts(run_id, FOLDER)}
        for name in there.intersection(FILES):
            client.download_artifacts(run_id, f"{FOLDER}/{name}", str(temporary))
        temporary.rename(self._folder)

    def adapt(self, operation: Operation) -> Operation:
        """The operation with attempts and faults counted on from the earlier job's."""
        if not self.attempts:
            return operation
        if isinstance(operation, SetTags) and operation.run == "job":
            return replace(operation, tags=self._job_tags(operation.tags))
        if isinstance(operation, OpenRun) and operation.run != "job":
            number = int(operation.run) + self.attempts
            return replace(operation, name=f"attempt {number}", tags={**operation.tags, NUMBER: str(number)})
        if isinstance(operation, SendText):
            path = _NUMBERED.sub(lambda found: f"{int(found.group(1)) + self.attempts:03d}", operation.path)
            return replace(operation, path=path)
        return operation

    def _job_tags(self, tags: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for key, value in tags.items():
            if key.startswith(LINE):
                changed[f"{LINE}{int(key.removeprefix(LINE)) + self.attempts}"] = value
            elif key in (ATTEMPTS, FAULTS):
                changed[key] = int(value) + _count(self._tags.get(key))
            elif key == CLASSES:
                known = [each for each in self._tags.get(CLASSES, "").split(",") if each]
                changed[key] = ",".join(dict.fromkeys([*known, *str(value).split(",")]))
            else:
                changed[key] = value
        return changed

    def earlier_lines(self, name: str) -> bytes:
        """What an earlier job wrote into a file of lines."""
        path = self._folder / FOLDER / name
        path = path if path.is_file() else self._folder / name
        return path.read_bytes() if path.is_file() else b""

    def table(self, text: str) -> str:
        """The table with the earlier job's rows ahead of ours."""
        try:
            earlier = json.loads(self.earlier_lines("attempts.json") or b"{}")
            ours = json.loads(text)
            at = ours["columns"].index("attempt")
            for row in ours["data"]:
                row[at] += self.attempts
            if earlier.get("columns") == ours["columns"]:
                ours["data"] = earlier["data"] + ours["data"]
        except (ValueError, KeyError, TypeError):
            _log.warning("the earlier attempts.json cannot be read")
            return text
        return json.dumps(ours, ensure_ascii=False)


def _count(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0
