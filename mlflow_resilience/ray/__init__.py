"""Training by several processes, on one machine or more, that Ray starts: the extra ``mlflow-resilience[ray]``."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from mlflow_resilience.errors import Preempted, RecoveryExhausted, UsageError
from mlflow_resilience.parameters import Parameters

_USAGE, _PREEMPTED = 2, 75


def train(recipe: str = Parameters().recipe, *, num_workers: int, **parameters: Any) -> None:
    """Train a recipe with ``num_workers`` processes, under supervision, as `mlflow-resilience train` does.

    ``parameters`` are those of the main job (``epochs=5``, ``batch_size=64``: the whole batch, of which each worker
    has its part). Where ``RAY_ADDRESS`` is set, Ray's cluster there is used, else Ray is started for this job and ended
    with it. Raises UsageError, Preempted (saved; call it again to go on) or RecoveryExhausted.
    """
    told = {"engine": "ray", "num_workers": num_workers, **parameters}
    options = [text for name, value in told.items() for text in (f"--{name.replace('_', '-')}", _shown(value))]
    command = [sys.executable, "-m", "mlflow_resilience.cli", "train", recipe, *options]
    code = subprocess.run(command, check=False).returncode
    if code == _USAGE:
        raise UsageError("the job was not started: the line above says what is wrong")
    if code == _PREEMPTED:
        raise Preempted("SIGTERM")
    if code:
        raise RecoveryExhausted(f"the job has failed (exit code {code}): its run in MLflow says of what")


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
