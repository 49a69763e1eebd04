"""Can the tracking store be reached?"""

from __future__ import annotations

import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from mlflow_resilience.core.redaction import redact
from mlflow_resilience.doctor.finding import Finding

_SECONDS = 5.0
_LOCAL = ("", "file", "sqlite")


def reachable(uri: str) -> Iterator[Finding]:
    """Training goes on without, so that it is a warning."""
    parts = urllib.parse.urlsplit(uri)
    problem = None
    if parts.scheme in ("http", "https"):
        problem = _asked(uri)
    elif parts.scheme in _LOCAL and not _writable(Path(parts.path)):
        problem = "its folder cannot be written"
    if problem is not None:
        yield Finding(
            severity="warning",
            check="tracking",
            text=redact(f"the tracking store {uri} cannot be used: {problem}"),
            remedy="start the server, or set MLFLOW_TRACKING_URI; meanwhile a job keeps all on disk, for "
            "`mlflow-resilience sync`",
        )


def _asked(uri: str) -> str | None:
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=_SECONDS) as answer:
            return None if answer.status == 200 else f"it answers {answer.status}"
    except urllib.error.HTTPError as error:
        return None if error.code in (401, 403, 404) else f"it answers {error.code}"  # it is there
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", None) or error)


def _writable(path: Path) -> bool:
    """Whether it can be written, or made where it is to be."""
    nearest = next(each for each in (path, *path.absolute().parents) if each.exists())
    return os.access(nearest, os.W_OK) and (nearest == path or nearest.is_dir())
