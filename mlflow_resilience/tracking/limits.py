"""MLflow's limits, met before they are met."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from mlflow_resilience.core.redaction import redact

METRICS_A_BATCH = 1000
ITEMS_A_BATCH = 100
KEY, PARAM, TAG = 250, 6000, 8000
FILE_PART = 120

_BAD = re.compile(r"[^/\w.\- :]")

T = TypeVar("T")


def key(name: Any) -> str:
    """A key that MLflow takes: bad characters become ``_``, an over-long one ends in a digest."""
    clean = posixpath.normpath(_BAD.sub("_", str(name)) or "_").lstrip("/")
    while clean.startswith(".."):
        clean = clean[2:].lstrip("/")
    clean = clean if clean not in ("", ".") else "_"
    if len(clean) <= KEY:
        return clean
    return f"{clean[: KEY - 9]}-{hashlib.sha256(clean.encode()).hexdigest()[:8]}"


def value(text: Any, most: int) -> tuple[str, bool]:
    """The value as text without secrets, cut where it is over-long; and whether it was."""
    whole = redact(text if isinstance(text, str) else ("" if text is None else str(text)))
    whole = whole.encode("utf-8", "replace").decode().replace("\x00", "")
    if len(whole) <= most:
        return whole, False
    note = f" … ({len(whole)} characters)"
    return whole[: most - len(note)] + note, True


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items, ``size`` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def folder(path: str) -> str:
    """An artifact folder that cannot escape the run's own. Raises ValueError."""
    clean = posixpath.normpath(path.replace("\\", "/"))
    if clean.startswith(("/", "..")):
        raise ValueError(f"an artifact path may not leave the run's folder: {path}")
    return "" if clean == "." else clean
