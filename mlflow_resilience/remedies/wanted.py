"""All remedies of one training: as they were asked for, and put to a model in their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from mlflow_resilience.errors import UsageError
from mlflow_resilience.remedies.augmenting import Augment, augment
from mlflow_resilience.remedies.clipping import Clip, clip
from mlflow_resilience.remedies.rates import Schedule, follow
from mlflow_resilience.remedies.regularising import Regularise, regularised
from mlflow_resilience.remedies.stopping import EarlyStopping, Plateau, check

#: What reads each remedy; the names are those of the parameters.
READERS: Mapping[str, Callable[[str], Any]] = {
    "schedule": Schedule.parse,
    "plateau": Plateau.parse,
    "early_stopping": EarlyStopping.parse,
    "clip": Clip.parse,
    "regularise": Regularise.parse,
    "augment": Augment.parse,
}


@dataclass(kw_only=True)
class Treated:
    """A model with its remedies: what `fit` gets besides, what was done, and what tells this training from others."""

    model: Any
    callbacks: list[Any] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    identity: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """None is what was not asked for."""

    schedule: Schedule | None = None
    plateau: Plateau | None = None
    early_stopping: EarlyStopping | None = None
    clip: Clip | None = None
    regularise: Regularise | None = None
    augment: Augment | None = None

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """Raises UsageError for what cannot be read, and for two that both set the learning rate."""
        found = cls(**{name: read(texts[name]) for name, read in READERS.items() if name in texts})
        if found.schedule and found.plateau:
            raise UsageError("schedule and plateau both set the learning rate: choose one")
        return found

    def put_to(self, model: Any, *, steps_per_epoch: int | None, epochs: int, validated: bool) -> Treated:
        """The remedies in their order. Raises UsageError where ``model`` or the data does not allow one."""
        told = Treated(model=model)
        if self.augment:
            told.model = augment(told.model, self.augment)
            told.lines.append(self.augment.in_words())
        if self.regularise:
            told.model, lines = regularised(told.model, self.regularise)
            told.lines += lines
        rate = self.schedule.in_steps(steps_per_epoch, epochs) if self.schedule else None
        if rate:
            told.lines.append(follow(told.model, rate))
        if self.clip:
            told.lines.append(clip(told.model, self.clip))
        for name, asked in (("plateau", self.plateau), ("early_stopping", self.early_stopping)):
            if asked is not None:
                check(name, asked, told.model, validated=validated)
                told.callbacks.append(asked.callback())
                told.lines.append(asked.in_words())
        told.identity = {**self._asked(), **({"schedule": dataclasses.asdict(rate)} if rate else {})}
        return told

    def _asked(self) -> dict[str, Any]:
        return {name: dataclasses.asdict(each) for name in READERS if (each := getattr(self, name)) is not None}
