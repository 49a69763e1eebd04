"""A warm-up before any schedule: the rate grows in a straight line up to where the schedule begins."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="mlflow_resilience")
class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """From ``first`` to the rate at which ``then`` begins in ``steps`` steps, then ``then``.

    A model that was saved with it can be loaded with its optimiser once this module is imported.
    """

    def __init__(self, first: float, steps: int, then: Any) -> None:
        super().__init__()
        self.first, self.steps, self.then = first, steps, then

    def __call__(self, step: Any) -> Any:
        step = ops.cast(step, "float32")
        peak = ops.cast(self.then(0), "float32")
        rising = self.first + (peak - self.first) * step / self.steps
        return ops.where(step < self.steps, rising, self.then(ops.maximum(step - self.steps, 0.0)))

    def get_config(self) -> dict[str, Any]:
        then = keras.saving.serialize_keras_object(self.then)
        return {"first": self.first, "steps": self.steps, "then": then}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> WarmUp:
        return cls(config["first"], config["steps"], keras.saving.deserialize_keras_object(config["then"]))
