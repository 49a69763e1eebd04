"""The learning rate: as the script gives it, as a state holds it, and times a factor that recovery set."""

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
    for optimizer in _holders(model):
        rate = optimizer._learning_rate
        schedule = rate.schedule if isinstance(rate, Scaled) else rate
        if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            optimizer._learning_rate = schedule if factor == 1.0 else Scaled(schedule, factor)
        elif factor != held:
            rate.assign(rate * (factor / held))


def given(model: keras.Model) -> list[float | None]:
    """Each optimiser's rate; None for a schedule, which the script makes anew."""
    return [None if _is_schedule(holder._learning_rate) else _value(holder) for holder in _holders(model)]


def variable(model: keras.Model) -> Any | None:
    """The compiled optimiser's rate where it is a variable; None where it follows a schedule."""
    rate = next((holder._learning_rate for holder in _holders(model)), None)
    return None if _is_schedule(rate) else rate


def carry_over(model: keras.Model, before: list[float | None], now: list[float | None]) -> None:
    """The script gives other rates than it gave when the state began: they hold, times what training did since."""
    for holder, old, new in zip(_holders(model), before, now, strict=False):
        if old is not None and new is not None and old != new:
            since = _value(holder)
            holder._learning_rate.assign(new if since == old or not old else since * (new / old))


def _holders(model: keras.Model) -> list[Any]:
    """The optimisers whose rate counts: within one that scales the loss, it is the inner one's."""
    inner = [getattr(optimizer, "inner_optimizer", optimizer) for optimizer in optimizers(model)]
    return [optimizer for optimizer in inner if getattr(optimizer, "_learning_rate", None) is not None]


def _is_schedule(rate: Any) -> bool:
    return isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)


def _value(holder: Any) -> float:
    return float(holder._learning_rate.numpy())
