"""The trainer of one rank: a fault ends the group, and only the chief saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import keras

from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import Fault, Phase, Position
from mlflow_resilience.errors import Preempted
from mlflow_resilience.training.attempt import Attempt
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.ports import Ports
from mlflow_resilience.training.trainer import KerasTrainer

_NEVER = 1 << 60


class RankTrainer(KerasTrainer):
    """``broken`` is told the first fault, and does not return: what follows is decided for the group as a whole."""

    def __init__(
        self,
        plan: Plan,
        ports: Ports,
        fit: Callable[..., Any],
        *,
        is_chief: bool,
        broken: Callable[[BaseException, Fault], NoReturn],
    ) -> None:
        super().__init__(plan, ports, fit, clean_steps=_NEVER)
        self._is_chief, self._broken = is_chief, broken

    def prepare(self, decision: Decision | None) -> Position:
        try:
            return super().prepare(decision)
        except Exception as error:
            self._break(error, self.describe(error))

    def attempt(self) -> keras.callbacks.History:
        try:
            return super().attempt()
        except Exception as error:
            self._break(error, self.describe(error))

    def judge(self, error: Exception, phase: Phase, *, batch_size: int | None, in_place: bool) -> Decision:
        self._break(error, self._describe(error, phase, batch_size))

    def boundary(self, attempt: Attempt, *, epoch_end: bool) -> None:
        if self._is_chief:
            return super().boundary(attempt, epoch_end=epoch_end)
        self._position = attempt.position
        asked = self._ports.stop_asked()
        if asked is not None:
            raise Preempted(asked)

    def save_and_leave(self) -> None:
        if self._is_chief:
            super().save_and_leave()

    def _break(self, error: BaseException, fault: Fault) -> NoReturn:
        if self._is_chief:
            self._settle()  # what was being saved is a step to go on from
        self._broken(error, fault)
