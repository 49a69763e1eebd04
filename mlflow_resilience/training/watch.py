"""What an attempt tells the world, and asks it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import Phase, Position

if TYPE_CHECKING:
    from mlflow_resilience.training.attempt import Attempt
    from mlflow_resilience.training.records import Bad


class Watch(Protocol):
    """Implemented by the trainer."""

    def begun(self, *, whole: bool) -> None:
        """Keras is about to train; ``whole`` when every variable exists."""

    def entered(self, phase: Phase, position: Position) -> None:
        """Training is now in ``phase``."""

    def judge(self, error: Exception, phase: Phase, *, batch_size: int | None, in_place: bool) -> Decision:
        """What is to be done about ``error``, recorded."""

    def in_force(self, decision: Decision) -> Settings:
        """A decision was carried out in place; the settings that hold from now on."""

    def before(self, step: int, batch: Any) -> Any:
        """The batch to train at ``step``; faults on purpose happen here."""

    def traced(self, function: Any) -> None:
        """The step was traced: ``function`` is what will run."""

    def quarantined(self, bad: list[Bad], step: int) -> None:
        """These records are left out of the batch of ``step``."""

    def stepped(self, position: Position, logs: dict[str, float], norm: float | None) -> None:
        """A step is done; ``norm`` is the global norm of its gradients, where it had any."""

    def recoverable(self, error: Exception) -> bool:
        """Whether recovery would go on after ``error``, about which nothing is certain; if not, that is said."""

    def epoch_ended(self, epoch: int, position: Position, logs: dict[str, float]) -> None:
        """An epoch is done, its validation included."""

    def boundary(self, attempt: Attempt, *, epoch_end: bool) -> None:
        """Training stands between two steps: the place to save, and to leave."""

    def restoring(self, meta: dict[str, Any]) -> AbstractContextManager[None]:
        """Around giving the model the values of a state."""

    def restored(self, problems: list[str]) -> None:
        """A state is whole again, but for ``problems``."""

    def data_differs(self) -> None:
        """The data found again does not begin with the batch that it began with before."""
