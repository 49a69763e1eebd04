"""Secrets are taken out of an entry before it is written: what the journal does not hold, nothing made of it does."""

from __future__ import annotations

from typing import Any

from mlflow_resilience.core.redaction import redact, redact_named
from mlflow_resilience.spool.codec import Entry

#: Numbers, and names of metrics: nothing to look for, and the most there is.
NUMBERS = frozenset({"points", "gauges", "carried", "times", "mark", "lost", "rolled_back", "attempt", "attempt_ended"})
#: Read by programs: a place or a name that was changed would not be found.
NAMES = frozenset({
    "kind", "path", "folder", "cwd", "checkpoint_folder", "digest", "local_id", "job_id", "run_id", "experiment_id",
    "request", "host", "failure_class", "verdict", "resumption", "basis", "from_job", "from_run", "from_model",
})  # fmt: skip


def clean(entry: Entry) -> Entry:
    """The entry without secrets."""
    if entry.get("kind") in NUMBERS:
        return entry
    return {key: value if key in NAMES else _cleaned(value) for key, value in entry.items()}


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: each if key in NAMES else _named(key, each) for key, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list | tuple) else value


def _named(key: Any, value: Any) -> Any:
    return redact_named(str(key), value) if isinstance(value, str) else _cleaned(value)
