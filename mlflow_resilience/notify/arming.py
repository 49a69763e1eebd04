"""Whom a job tells, kept in its folder for the process that does it: not in the journal, for it may be a secret."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from mlflow_resilience.core.addressee import Addressee, check, command_of, is_url
from mlflow_resilience.spool import atomic
from mlflow_resilience.spool.folder import JobFolder

ENVIRONMENT = "MLFLOW_RESILIENCE_NOTIFY"

_FILE = "notify.json"


def arm(folder: JobFolder, notify: Addressee | None) -> None:
    """From now on the job's sender tells this command or URL, or the environment variable's; a function it cannot call.
    Raises UsageError."""
    wanted = notify or os.environ.get(ENVIRONMENT) or None
    check(wanted)
    if wanted is None or callable(wanted):
        return
    target = {"url": wanted} if is_url(wanted) else {"command": command_of(wanted)}
    path = folder.path / _FILE
    temporary = path.with_suffix(".new")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(target, file)
    os.replace(temporary, path)


def armed(folder: JobFolder) -> Mapping[str, Any] | None:
    """The command or URL of the job, if it has one."""
    target = atomic.read_json(folder.path / _FILE)
    return target if isinstance(target, dict) and (target.get("url") or target.get("command")) else None
