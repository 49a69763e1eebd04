"""A learning rate that changes with the optimiser's steps: a warm-up, and a decay after it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal, Self

from mlflow_resilience.core import grammar
from mlflow_resilience.core.grammar import Word
from mlflow_resilience.errors import UsageError

Kind = Literal["constant", "cosine", "exponential", "cyclic"]

_LENGTH = re.compile(r"(\d+) ?(steps?|epochs?)?")


@dataclass(frozen=True)
class Length:
    """So many steps, or epochs."""

    count: int
    unit: Literal["steps", "epochs"] = "steps"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From ``100``, ``100steps`` or ``2epochs``; ValueError."""
        found = _LENGTH.fullmatch(text)
        if found is None or int(found[1]) < 1:
            raise ValueError(text)
        return cls(int(found[1]), "epochs" if (found[2] or "").startswith("epoch") else "steps")

    def steps(self, steps_per_epoch: int | None) -> int:
        """In steps. Raises UsageError where the data does not say how many an epoch has."""
        if self.unit == "steps":
            return self.count
        if steps_per_epoch is None:
            raise UsageError("schedule: the data does not say how many steps an epoch has; give lengths in steps")
        return self.count * steps_per_epoch


_WORDS = {
    "warmup": Word("warmup:LENGTH", (Length.parse,), 1),
    "cosine": Word("cosine[:LENGTH]", (Length.parse,)),
    "exponential": Word("exponential:FACTOR:LENGTH", (grammar.share, Length.parse), 2),
    "cyclic": Word("cyclic:LENGTH[:GROWTH]", (Length.parse, grammar.positive), 1),
    "floor": Word("floor:SHARE", (grammar.share,), 1),
}
_DECAYS: tuple[Kind, ...] = ("cosine", "exponential", "cyclic")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What was asked for. ``length`` is that of a whole cosine (None: up to the end of training), of the time in which
    an exponential decay multiplies by ``factor``, or of the first of cycles that each are ``factor`` times as long."""

    warmup: Length | None = None
    kind: Kind = "constant"
    length: Length | None = None
    factor: float = 1.0
    floor: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From e.g. ``warmup:100,cosine``; None for ``none``. Raises UsageError."""
        if text == "none":
            return None
        found = grammar.parse(text, _WORDS)
        chosen = [kind for kind in _DECAYS if kind in found]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} are two decays: one is needed")
        kind = chosen[0] if chosen else "constant"
        if "floor" in found and kind not in ("cosine", "cyclic"):
            raise UsageError("floor belongs to cosine or cyclic")
        warmup, floor = found.get("warmup", (None,))[0], found.get("floor", (0.0,))[0]
        return cls(warmup=warmup, kind=kind, floor=floor, **_decay(kind, found.get(kind, ())))

    def in_steps(self, steps_per_epoch: int | None, epochs: int | None) -> Rate:
        """The same in steps of this training. Raises UsageError where that cannot be told."""
        warmup = self.warmup.steps(steps_per_epoch) if self.warmup else 0
        if self.kind == "constant":
            return Rate(warmup=warmup)
        if self.length is None and (steps_per_epoch is None or epochs is None):
            raise UsageError("schedule: how long training is cannot be told before; give the length, as cosine:5000")
        length = self.length or Length(epochs or 0, "epochs")
        steps = length.steps(steps_per_epoch) - (0 if self.length else warmup)
        if steps < 1:
            raise UsageError(f"schedule: the warm-up of {warmup} steps leaves no step for the decay")
        return Rate(warmup=warmup, kind=self.kind, steps=steps, factor=self.factor, floor=self.floor)


def _decay(kind: Kind, values: tuple[Any, ...]) -> dict[str, Any]:
    if kind == "exponential":
        return {"factor": values[0], "length": values[1]}
    if kind == "cyclic":
        return {"length": values[0], "factor": values[1] if len(values) > 1 else 1.0}
    return {"length": values[0] if values else None}


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A schedule in steps of the optimiser: its own count, which is part of every training state."""

    warmup: int = 0
    kind: Kind = "constant"
    steps: int = 0
    factor: float = 1.0
    floor: float = 0.0

    def around(self, rate: float) -> Any:
        """A Keras schedule whose peak is ``rate``; of Keras's own classes, but for a warm-up before an exponential or
        a cyclic decay. The first step of a warm-up has one part in so many steps of the peak."""
        from keras.optimizers import schedules

        first = rate / self.warmup if self.warmup else rate
        if self.kind == "constant":
            return schedules.PolynomialDecay(first, self.warmup, end_learning_rate=rate, power=1.0)
        if self.kind == "cosine" and self.warmup:
            return schedules.CosineDecay(
                first, self.steps, alpha=self.floor, warmup_target=rate, warmup_steps=self.warmup
            )
        if self.kind == "cosine":
            return schedules.CosineDecay(rate, self.steps, alpha=self.floor)
        then = (
            schedules.ExponentialDecay(rate, self.steps, self.factor)
            if self.kind == "exponential"
            else schedules.CosineDecayRestarts(rate, self.steps, t_mul=self.factor, m_mul=1.0, alpha=self.floor)
        )
        if not self.warmup:
            return then
        from mlflow_resilience.remedies.warm_up import WarmUp

        return WarmUp(first, self.warmup, then)

    def in_words(self, rate: float) -> str:
        """``learning rate 0.002: warm-up over 100 steps, then cosine to 0 over 900 steps``."""
        floor = f"{rate * self.floor:g}"
        decay = {
            "constant": "constant",
            "cosine": f"cosine to {floor} over {self.steps} steps",
            "exponential": f"times {self.factor:g} every {self.steps} steps",
            "cyclic": f"cosine to {floor} over {self.steps} steps, again and again"
            + ("" if math.isclose(self.factor, 1.0) else f", each time over {self.factor:g} times as many"),
        }[self.kind]
        warmup = f"warm-up over {self.warmup} steps, then " if self.warmup else ""
        return f"learning rate {rate:g}: {warmup}{decay}"


def schedule(
    model: Any, wanted: str | Schedule, *, steps_per_epoch: int | None = None, epochs: int | None = None
) -> str:
    """Let the learning rate of ``model``'s optimiser follow a schedule, with the rate that it has as the peak.

    ``wanted`` is e.g. ``warmup:100,cosine:900``, ``warmup:1epoch,exponential:0.9:1epoch`` or
    ``cyclic:500:2,floor:0.01``; without a length, a cosine lasts up to the end of ``epochs`` times ``steps_per_epoch``.
    Call it after ``compile`` and before `fit`. Returns what was done, in words. Raises UsageError for what cannot be
    read, for lengths that cannot be told, and for an optimiser that has a schedule already.
    """
    asked = Schedule.parse(wanted) if isinstance(wanted, str) else wanted
    if asked is None:
        return ""
    return follow(model, asked.in_steps(steps_per_epoch, epochs))


def follow(model: Any, rate: Rate) -> str:
    """The same for what is in steps already."""
    from keras.optimizers.schedules import LearningRateSchedule

    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    own = optimizer._learning_rate
    if isinstance(own, LearningRateSchedule) or callable(own):
        raise UsageError(
            f"schedule: the model's optimiser has a schedule of its own, {type(own).__name__}: give it a plain "
            "learning rate, or schedule=none"
        )
    peak = float(own.numpy())
    peak = float(f"{peak:.7g}")  # what the user wrote, and not its neighbour in float32
    optimizer.learning_rate = rate.around(peak)
    return rate.in_words(peak)
