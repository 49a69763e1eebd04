"""What the trainer uses of the job around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mlflow_resilience.core.judge import Journal, Judge
from mlflow_resilience.training.export import Exporter
from mlflow_resilience.training.keeper import Keeper
from mlflow_resilience.training.state import TrainingState
from mlflow_resilience.training.stopwatch import Stopwatch


@dataclass(kw_only=True)
class Ports:
    """What the trainer uses of the job around it."""

    journal: Journal
    judge: Judge
    keeper: Keeper
    beat: Callable[[str, int, int], None]
    stop_asked: Callable[[], str | None]  # the name of the signal that asked the job to end
    strike: Callable[[int, Any], Any]  # faults on purpose
    new_process: bool  # whether a supervisor will start one
    stopwatch: Stopwatch
    find_resume: Callable[[], TrainingState | None]  # asked once, when the model is whole
    make_exporter: Callable[[], Exporter] | None  # None where no models are to be logged
    environment: dict[str, Any] = field(default_factory=dict)  # versions, processor, GPUs, as telemetry knows them
