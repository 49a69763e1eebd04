"""The one road from a fault to a decision, with both in the journal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mlflow_resilience.core.attempt import AttemptLog, Settings
from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.decision import Decision, where
from mlflow_resilience.core.failure import Recovery, classify
from mlflow_resilience.core.fault import Fault, Position
from mlflow_resilience.core.policy import Policy, decide

Describe = Callable[[BaseException], Fault]

#: Where an exception that was judged carries its decision; keeping the exception instead would keep its tensors.
_DECISION = "_mlflow_resilience_decision"


class Journal(Protocol):
    """Where everything is written down, in order."""

    def append(self, kind: str, /, durable: bool = False, **fields: Any) -> None:
        """Add an entry; with ``durable``, return only once it would survive the machine."""


class Judge:
    """Judges faults, whoever saw them: the trainer within a step, the loop, or a supervisor.

    It also opens and ends attempts, for what an attempt is follows from the decisions. ``log`` is the job's record so
    far; ``recoveries`` are all that are known, in order of precedence; ``memory`` takes a snapshot for the record.
    """

    def __init__(
        self,
        journal: Journal,
        policy: Policy,
        recoveries: Sequence[Recovery],
        log: AttemptLog | None = None,
        *,
        memory: Callable[[], Mapping[str, float]] = dict,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.policy = policy
        self.log = log or AttemptLog()
        self._journal = journal
        self._recoveries = tuple(recoveries)
        self._memory = memory
        self._clock = clock

    @property
    def settings(self) -> Settings:
        """The settings now in force."""
        return self.log.settings

    def memory(self) -> Mapping[str, float]:
        """A snapshot of memory, as it is recorded with a fault."""
        return self._memory()

    def judge(self, fault: Fault, can: Capabilities) -> Decision:
        """Classify, decide, record both. The attempt ends where the decision ends it; where the next one needs
        nothing but new settings, it begins here too."""
        fault = fault.redacted()
        position = fault.position or Position()
        if not self.log.is_open:
            self._open(position, "what was to be done before it failed", self.settings)
        recovery = classify(fault, self._recoveries)
        decision = decide(fault, recovery, self.log, self.settings, self.policy, can)
        self._write_down(fault, recovery, decision)
        if decision.verdict == "leave":
            self.end("KILLED", position)
        elif decision.verdict == "stop" or decision.opens_attempt:
            self.end("FAILED", position)
        if decision.resumption == "in_place":
            self._go_on_in_place(decision, position)
        return decision

    def foresee(self, fault: Fault, can: Capabilities) -> Decision:
        """What :meth:`judge` would decide; nothing is recorded, and nothing done."""
        recovery = classify(fault, self._recoveries)
        return decide(fault, recovery, self.log, self.settings, self.policy, can)

    def in_step(self, error: BaseException, fault: Fault, can: Capabilities) -> Decision:
        """For a trainer that can help itself within the step. Unless the decision's resumption is ``in_place`` it
        lets the same exception go, and :meth:`out_of_step` finds the decision made."""
        decision = self.judge(fault, can)
        if decision.resumption != "in_place":
            error.__dict__[_DECISION] = decision
        return decision

    def out_of_step(self, error: BaseException, describe: Describe, can: Capabilities) -> Decision:
        """For the loop: the decision about an exception that left the training."""
        made: Decision | None = error.__dict__.pop(_DECISION, None)
        return made or self.judge(describe(error), can)

    def begin(self, position: Position, reason: str, settings: Settings | None = None) -> None:
        """The next attempt begins at ``position``, from a checkpoint or the start; one still open was lost."""
        if self.log.is_open:
            self.end("FAILED", position)
        earlier = self.log.attempt
        if earlier in self.log.failed:
            seconds = self._clock() - self.log.last_reached(position.global_step)
            self._lose(seconds, max(0, self.log.step - position.global_step))
        self._open(position, reason, settings or self.settings)
        if earlier:
            self._record("rolled_back", attempt=self.log.attempt, step=position.global_step)

    def change(self, settings: Settings, position: Position, reason: str) -> None:
        """Other settings without a fault: the attempt has done its part, another one begins."""
        self.end("FINISHED", position)
        self._open(position, reason, settings)

    def end(self, status: str, position: Position) -> None:
        """The open attempt ends ``FINISHED``, ``FAILED`` or ``KILLED``."""
        self._record("attempt_ended", durable=True, attempt=self.log.attempt, status=status, step=position.global_step)

    def _go_on_in_place(self, decision: Decision, position: Position) -> None:
        if decision.delay:
            self._lose(decision.delay, 0)
        if decision.opens_attempt:
            self._open(position, decision.text, decision.settings)

    def _open(self, position: Position, reason: str, settings: Settings) -> None:
        self._record(
            "attempt",
            durable=True,
            attempt=self.log.attempt + 1,
            step=position.global_step,
            epoch=position.epoch,
            settings=settings.to_dict(),
            pid=os.getpid(),
            reason=reason,
        )

    def _write_down(self, fault: Fault, recovery: Recovery, decision: Decision) -> None:
        attempt, number = self.log.attempt, self.log.faults + 1
        self._record(
            "fault",
            attempt=attempt,
            number=number,
            in_place=decision.resumption == "in_place" and not decision.opens_attempt,
            fault=fault.to_dict(),
            where=where(fault).strip(),
            failure_class=recovery.failure_class,
            failure_domain=recovery.domain,
            hint=recovery.hint,
            memory=dict(self._memory()),
        )
        self._record("decision", durable=True, attempt=attempt, number=number, **decision.to_dict())

    def _lose(self, seconds: float, steps: int) -> None:
        self._record("lost", attempt=self.log.attempt, seconds=max(0.0, seconds), steps=steps)

    def _record(self, kind: str, durable: bool = False, **fields: Any) -> None:
        self._journal.append(kind, durable=durable, **fields)
        self.log.add({"kind": kind, "time": self._clock(), **fields})
