"""A fit that several processes do together: what it needs of whatever holds them together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mlflow_resilience.core.fault import Fault
    from mlflow_resilience.stop import StopRequests
    from mlflow_resilience.training.plan import Plan
    from mlflow_resilience.training.ports import Ports
    from mlflow_resilience.training.state import TrainingState
    from mlflow_resilience.training.trainer import KerasTrainer


class Together(Protocol):
    """One of several processes that all do the same steps, each on its part of every batch. The chief alone saves."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and curves."""

    def connect(self) -> None:
        """Join the others: before TensorFlow has computed anything."""

    def attach(self, model: Any) -> None:
        """Let the model's steps be done together. UsageError where they cannot be."""

    def start(self, find: Callable[[], TrainingState | None], checkpoints: Path) -> TrainingState | None:
        """What the chief has found to go on from, in every process."""

    def stop_asked(self, stop: StopRequests) -> str | None:
        """The signal that asked any of the processes to end, once all know of it at the same step."""

    def trainer(self, plan: Plan, ports: Ports, fit: Callable[..., Any]) -> KerasTrainer:
        """What the recovery loop drives."""

    def broken(self, fault: Fault) -> int:
        """This process has a fault: the group ends. The exit code to end with."""
