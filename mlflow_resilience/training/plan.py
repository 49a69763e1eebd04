"""What `fit` is to do, and where it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import keras

from mlflow_resilience.core.fault import Position
from mlflow_resilience.training.py_dataset import Given
from mlflow_resilience.training.state import TrainingState


@dataclass(kw_only=True)
class Plan:
    """What one attempt is to do: the fit as the user asked for it, and where it starts."""

    model: keras.Model
    arguments: dict[str, Any]  # of `fit`, less data, callbacks, epochs
    training: dict[str, Any]  # arguments of Keras's data adapter for the training data
    validation: dict[str, Any] | None
    callbacks: list[keras.callbacks.Callback]
    history: keras.callbacks.History
    epochs: int
    initial_epoch: int
    origin: dict[str, Any]  # random state when `fit` was first called
    first_step: int  # global steps done before this fit (an earlier fit of the same job)
    given: Given | None = None  # a PyDataset as the script made it
    given_validation: Given | None = None
    left_out: list[str] = field(default_factory=list)  # callbacks that have no place beside ours
    environment: dict[str, Any] = field(default_factory=dict)  # what the bits depend on besides the state
    rates: list[float | None] = field(default_factory=list)  # the optimisers' learning rates as the script gave them
    exempt: frozenset[str] = frozenset()  # variables that the script itself made infinite (masks and the like)
    resume: TrainingState | None = None

    @property
    def start(self) -> Position:
        """Where a fresh start begins."""
        return Position(global_step=self.first_step, epoch=self.initial_epoch)

    @property
    def all_callbacks(self) -> list[keras.callbacks.Callback]:
        return [*self.callbacks, self.history]
