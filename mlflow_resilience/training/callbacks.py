"""Our two callbacks: one before the user's, one after. They watch, and act at the boundaries between steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from mlflow_resilience.training.attempt import Attempt


class Opening(keras.callbacks.Callback):
    """First in the list. A state taken between two epochs is restored before anybody sees the epoch begin."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__()
        self._attempt = attempt

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._attempt.restore_at("epoch")


class Closing(keras.callbacks.Callback):
    """Last of the user's: what it sees and saves includes what their callbacks did."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__()
        self._attempt = attempt

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._attempt.begin()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._attempt.epoch_begun(epoch)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if not self._attempt.restore_at("step"):
            self._attempt.step_ended(logs or {})

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._attempt.validation_begun()

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._attempt.validation_step_ended()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._attempt.epoch_ended(epoch, logs or {})
