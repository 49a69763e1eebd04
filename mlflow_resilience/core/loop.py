"""The recovery loop: what is pending is done, training is tried; a fault is judged, and the next try is made of the
decision."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.decision import UNTRIED, Decision
from mlflow_resilience.core.fault import Fault, Position
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.errors import RecoveryExhausted

T_co = TypeVar("T_co", covariant=True)


class Trainer(Protocol[T_co]):
    """What the loop needs of whatever trains."""

    @property
    def position(self) -> Position:
        """How far training is."""

    @property
    def capabilities(self) -> Capabilities:
        """What can be done about an exception that has left the training."""

    def prepare(self, decision: Decision | None) -> Position:
        """Do what the decision asks for (None: start, or resume what an earlier process left); training goes on from
        the position returned."""

    def attempt(self) -> T_co:
        """Train to the end."""

    def make_way(self) -> bool:
        """An attempt has failed: give its memory back. True where only a new process gives back enough."""

    def describe(self, error: BaseException) -> Fault:
        """The facts about an exception that this raised."""


@dataclass(frozen=True)
class NeedsNewProcess:
    """Training can go on only in a new process; the edge ends this one."""

    decision: Decision


@dataclass(frozen=True)
class Leave:
    """The job was asked to end; the edge saves, and ends as one that can be resumed."""

    decision: Decision
    error: BaseException


def train(
    trainer: Trainer[T_co], judge: Judge, *, sleep: Callable[[float], object] = time.sleep
) -> T_co | NeedsNewProcess | Leave:
    """Train to the end through whatever can be recovered from.

    A fault that is never retried is raised as it came; a spent recovery raises
    :class:`~mlflow_resilience.errors.RecoveryExhausted` from the last fault.
    """
    decision: Decision | None = None
    while True:
        try:
            if decision is not None:
                sleep(decision.delay)
            position = trainer.prepare(decision)
            judge.begin(position, decision.text if decision else "start")
            result = trainer.attempt()
            judge.end("FINISHED", trainer.position)
            return result
        except (SystemExit, GeneratorExit):  # asked for in code: no fault
            if judge.log.is_open:
                judge.end("KILLED", trainer.position)
            raise
        except BaseException as error:
            # Judged here, acted on below: in here the traceback keeps the failed step's tensors alive.
            decision = judge.out_of_step(error, trainer.describe, trainer.capabilities)
            if decision.verdict == "stop" and decision.basis in UNTRIED:
                raise
            if decision.verdict == "stop":
                raise RecoveryExhausted(decision.text) from error
            if decision.verdict == "leave":
                return Leave(decision, error)
        if decision.resumption == "new_process" or trainer.make_way():
            return NeedsNewProcess(decision)
