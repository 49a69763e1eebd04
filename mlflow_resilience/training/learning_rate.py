"""The learning rate times a factor that recovery set, whatever kind of rate the optimiser has."""

from __future__ import annotations

from typing import Any

import keras

from mlflow_resilience.training.state import optimizers


class Scaled(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule times a constant."""

    def __init__(self, schedule: Any, factor: float) -> None:
        super().__init__()
        self.schedule, self.factor = schedule, factor

    def __call__(self, step: Any) -> Any:
        return self.schedule(step) * self.factor

    def get_config(self) -> dict[str, Any]:
        return {"schedule": keras.saving.serialize_keras_object(self.schedule), "factor": self.factor}


def scale(model: keras.Model, factor: float, held: float) -> None:
    """Bring every rate to ``factor`` times the user's own; one that is a variable holds ``held`` times it already."""
    for optimizer in optimizers(model):
        rate = getattr(optimizer, "_learning_rate", None)
        schedule = rate.schedule if isinstance(rate, Scaled) else rate
        if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            optimizer._learning_rate = schedule if factor == 1.0 else Scaled(schedule, factor)
        elif rate is not None and factor != held:
            rate.assign(rate * (factor / held))
