"""Keras training that survives: `fit` wrapped in recovery, exact resume, and everything told in MLflow.

Importing this package imports neither TensorFlow nor MLflow; what needs them loads them on first use.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if not sys.platform.startswith("linux"):
    raise ImportError("mlflow_resilience needs Linux: it relies on process groups, flock and /proc")

from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.policy import Backoff, Policy
from mlflow_resilience.errors import (
    CheckpointError,
    Divergence,
    Preempted,
    RecoveryExhausted,
    ResilienceError,
    TrackingError,
    UsageError,
)

if TYPE_CHECKING:
    from mlflow_resilience.api import autolog, fit
    from mlflow_resilience.fitting import Checkpoints
    from mlflow_resilience.telemetry import measure_memory

__version__ = "0.1.0"

__all__ = [
    "Backoff",
    "CheckpointError",
    "Checkpoints",
    "Divergence",
    "Policy",
    "Preempted",
    "Recovery",
    "RecoveryExhausted",
    "ResilienceError",
    "Rung",
    "TrackingError",
    "UsageError",
    "autolog",
    "fit",
    "measure_memory",
]

_LATER = {
    "fit": "mlflow_resilience.api",
    "autolog": "mlflow_resilience.api",
    "Checkpoints": "mlflow_resilience.fitting",
    "measure_memory": "mlflow_resilience.telemetry",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
