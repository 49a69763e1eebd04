"""What the composition root hands in: figures and report, which tracking knows nothing of."""

from __future__ import annotations

from collections.abc import Callable

from mlflow_resilience.spool.record import JobRecord

#: artifact path below ``resilience/`` -> the function that renders it (None: nothing to show)
Renderers = dict[str, Callable[[JobRecord], bytes | None]]
