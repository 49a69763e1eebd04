"""Keeps a server's ``Retry-After``, which MLflow's exceptions lose.

Our process lets no HTTP call retry inside MLflow (one call may not block for minutes), so the wait is ours to honour.
"""

from __future__ import annotations

import threading
import time
from email.utils import parsedate_to_datetime
from typing import Any

import mlflow.utils.request_utils as request_utils
import urllib3

LONGEST = 300.0

_local = threading.local()


class _Retry(urllib3.util.Retry):
    def increment(self, *args: Any, **kwargs: Any) -> Any:
        response = kwargs.get("response") or (args[2] if len(args) > 2 else None)
        if response is not None:
            _local.seconds = parse(response.headers.get("Retry-After"))
        return super().increment(*args, **kwargs)


def install() -> None:
    """From now on, the header of a refused request is kept. Without effect where MLflow is built otherwise."""
    if hasattr(request_utils, "Retry"):
        request_utils.Retry = _Retry  # type: ignore[misc, assignment, unused-ignore]


def take() -> float:
    """The seconds asked for by the last refused request of this thread; asked once."""
    seconds = float(getattr(_local, "seconds", 0.0))
    _local.seconds = 0.0
    return seconds


def parse(value: str | None) -> float:
    """The header's seconds or date, as seconds from now; 0 when there is none."""
    if not value:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST)
