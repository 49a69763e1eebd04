"""A tracking server that cannot be reached for a while."""

from __future__ import annotations

from typing import Any

from mlflow_resilience.spool import outage
from mlflow_resilience.strikes.place import Place, Strike

_OUT_SECONDS = 10.0


def _tracking_down(batch: Any, place: Place) -> Any:
    outage.begin(place.folder, _OUT_SECONDS)
    return batch


STRIKES: dict[str, Strike] = {"tracking_down": _tracking_down}
