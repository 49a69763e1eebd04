"""The true exit code for a caller behind `mlflow run`, which turns every failure into 1.

``MLFLOW_RESILIENCE_EXIT_FILE`` names the file: ``running PID`` while a job runs, then its exit code.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def begin() -> None:
    """Say that a job runs here, and which process to ask to stop."""
    _write(f"running {os.getpid()}\n")


def write(code: int) -> None:
    """Leave the exit code."""
    _write(f"{code}\n")


def _write(text: str) -> None:
    name = os.environ.get("MLFLOW_RESILIENCE_EXIT_FILE")
    if not name:
        return
    new = Path(f"{name}.new")
    with contextlib.suppress(OSError):  # the caller has gone, with its file
        new.write_text(text)
        new.replace(name)
