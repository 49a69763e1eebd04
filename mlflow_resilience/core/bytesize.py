"""Sizes as users write them: ``64MB``."""

from __future__ import annotations

import re

from mlflow_resilience.errors import UsageError

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kMG]?)B")
_FACTOR = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def parse(text: str) -> int:
    """Bytes; 0 for ``none``. Raises UsageError."""
    if text == "none":
        return 0
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no size: none, or e.g. 64MB is needed")
    return int(float(match[1]) * _FACTOR[match[2]])
