"""Whether training is still sound, by what its steps tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_resilience.core.spike import LossHistory
from mlflow_resilience.training.signs import Sign, Signs


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Why the global step ``step`` is void. ``certain`` where numbers are no longer finite; a ``loss`` that has jumped
    out of its history is a suspicion."""

    step: int
    text: str
    certain: bool = True
    loss: float = math.nan


class Health:
    """Looks at each step, and keeps the history that its loss is held against."""

    def __init__(self, history: Mapping[str, Any]) -> None:
        self.history = LossHistory.from_dict(history)

    def look(self, logs: Mapping[str, float], signs: Sequence[Sign], usual: Signs, done: int) -> Finding | None:
        """What is wrong with the steps that ``signs`` tell of, if anything; ``logs`` are Keras's after ``done`` steps.

        Losses of sound steps become history.
        """
        for sign in signs:
            if sign.loss is not None and not math.isfinite(sign.loss):
                return Finding(step=sign.step, text=f"the loss is {sign.loss} at step {sign.step}")
            if sign.norm is not None and not math.isfinite(sign.norm) and not usual.is_usual(sign.norm):
                return Finding(step=sign.step, text=f"the gradient's global norm is {sign.norm} at step {sign.step}")
        loss = logs.get("loss", 0.0)
        if not math.isfinite(loss):
            return Finding(step=done, text=f"the loss is {loss} after step {done}")
        return self._jump(signs, logs)

    def accept(self, found: Finding) -> None:
        """The jump stays as it is: it is history now."""
        self.history.add(found.loss)

    def _jump(self, signs: Sequence[Sign], logs: Mapping[str, float]) -> Finding | None:
        for sign in signs:
            # A train_step of one's own that has no tracker gives the step's loss as it is.
            loss = logs.get("loss") if sign.loss is None else sign.loss
            if loss is None:
                continue
            if self.history.jumps(loss):
                times = self.history.distance(loss)
                text = (
                    f"the loss jumped to {loss:g} at step {sign.step}, {times:.0f} times as far above its level as ever"
                )
                return Finding(step=sign.step, text=text, certain=False, loss=loss)
            self.history.add(loss)
        return None
