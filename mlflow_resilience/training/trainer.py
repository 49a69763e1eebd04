"""The trainer that the recovery loop drives: Keras's `fit`, attempt by attempt."""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.core.action import FreeDisk
from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.decision import BASES, Decision
from mlflow_resilience.core.fault import Fault, Phase, Position, describe
from mlflow_resilience.errors import BadRecords, Preempted
from mlflow_resilience.training import checkpoint, growing, lighter, microbatch, reproducible, state
from mlflow_resilience.training.attempt import Attempt
from mlflow_resilience.training.callback_state import CallbackStates
from mlflow_resilience.training.export import Exporter
from mlflow_resilience.training.growing import Growth
from mlflow_resilience.training.memory import Memory
from mlflow_resilience.training.mending import asks
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.ports import Ports
from mlflow_resilience.training.records import Bad
from mlflow_resilience.training.starting import Starting
from mlflow_resilience.training.state import TrainingState
from mlflow_resilience.training.telling import Telling


class KerasTrainer:
    """Implements the loop's `Trainer` and the attempts' `Watch` over one call of `fit`."""

    def __init__(
        self, plan: Plan, ports: Ports, fit: Callable[..., Any], *, clean_steps: int = growing.CLEAN_STEPS
    ) -> None:
        self._plan, self._ports, self._fit = plan, ports, fit
        self._callbacks = CallbackStates(plan.all_callbacks)
        self._attempt: Attempt | None = None
        self.last_metrics: dict[str, float] = {}
        self._batch_size = 1  # of the batch that failed last
        self._tell = Telling(ports.journal, ports.judge, plan.model)
        self._starting = Starting(plan, ports, self._callbacks, self._tell)
        self._growth = Growth(clean_steps)
        self._memory = Memory(ports.judge.memory)
        self._position = plan.start
        self._furthest = ports.judge.log.step if ports.judge.log.attempt else 0  # an earlier process got so far
        self._untouched = True  # no step is done since the last start or restore
        self._whole = False  # the model is in the state that it is to go on from
        self._phase: Phase = "start"
        self.gate = threading.Lock()  # whoever holds it keeps the next step from beginning

    # -- the loop's port ---------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position:
        return self._attempt.position if self._attempt is not None else self._position

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities(in_place=False)

    def prepare(self, decision: Decision | None) -> Position:
        """Make ready to train from the newest state that is whole."""
        self._untouched, self._whole = True, False
        self._ports.stopwatch.switch("startup" if decision is None else "recovery")
        self._enter("restore" if decision is not None or self._starting.resume is not None else "start", self._position)
        if decision is None:
            self._starting.start()
        else:
            self._starting.roll_back(decision)
        self._position = self._starting.position
        self._attempt = None
        return self._position

    def attempt(self) -> keras.callbacks.History:
        settings, resume = self._ports.judge.settings, self._starting.resume
        plan, heavy = lighter.plan(dataclasses.replace(self._plan, resume=resume), settings)
        if heavy is not None:
            self._tell.event("not_lighter", heavy, self._position)
        held = Settings.from_dict(resume.meta["settings"]) if resume is not None else Settings()
        self._tell.settings = held
        self._tell.changes(settings, self._position.global_step)
        self._attempt = Attempt(plan, settings, self, self._fit, self._callbacks, held=held)
        self._ports.keeper.restart(self._position)
        self._growth.disturbed(self._position.global_step)
        self._enter("start", self._position)
        try:
            history = self._attempt.run()
        finally:
            self._settle()
        return history

    def make_way(self) -> bool:
        self._position, self._attempt = self.position, None
        released = self._memory.release()
        sizes = {"before_mb": released.before_mb, "after_mb": released.after_mb}
        leaves = released.grows and self._ports.new_process
        text = f"{released}: going on in a new process" if leaves else str(released)
        self._tell.event("memory_released", text, self._position, **sizes)
        return leaves

    def describe(self, error: BaseException) -> Fault:
        return self._describe(error, self._phase, None)

    # -- what an attempt tells and asks ------------------------------------------------------------------------------

    def begun(self, *, whole: bool) -> None:
        if whole and not self._starting.is_complete and self._position.global_step == self._plan.first_step:
            self._starting.complete()  # the model could not be built before its data was there

    def restoring(self, meta: dict[str, Any]) -> AbstractContextManager[None]:
        return self._ports.keeper.restoring(Position(**meta["position"]))

    def restored(self, problems: list[str]) -> None:
        self._whole = True
        self._starting.resume = None  # as large as the model, and no more needed
        for text in problems:
            self._tell.event("callback_state", text, self.position)

    def data_differs(self) -> None:
        text = (
            "the data comes in another order than before: it was read from before this fit, or is not seeded; a seed "
            "for its shuffle, or a pipeline that only fit reads, repeats itself"
        )
        self._ports.journal.append("semantic_change", step=self._position.global_step, text=text)

    def traced(self, function: Any) -> None:
        ops = reproducible.stateful_random_ops(function)
        if ops:
            self._tell.inexact(ops, self._position, resumed=self._starting.resumed)

    def entered(self, phase: Phase, position: Position) -> None:
        with self.gate:
            self._whole = self._whole or (self._starting.resume is None and phase == "data")
            self._enter(phase, position)
        watch = self._ports.stopwatch
        if phase == "data":
            watch.switch("data_wait" if self._starting.resume is None else "restore")
        elif phase in ("step", "trace"):
            replayed = position.global_step < self._furthest
            watch.switch("startup" if phase == "trace" else "replayed" if replayed else "productive")

    def judge(self, error: Exception, phase: Phase, *, batch_size: int | None, in_place: bool) -> Decision:
        self._ports.stopwatch.switch("recovery")
        self._tell.points()
        self._growth.disturbed(self.position.global_step)
        self._batch_size = batch_size or self._batch_size
        fault = self._describe(error, phase, batch_size)
        return self._ports.judge.in_step(error, fault, self._capabilities(in_place=in_place and not fault.jit))

    def in_force(self, decision: Decision) -> Settings:
        if asks(decision, FreeDisk):
            self._ports.keeper.make_room()
        self._tell.changes(decision.settings, self.position.global_step)
        return decision.settings

    def quarantined(self, bad: list[Bad], step: int) -> None:
        if not bad:
            return
        self._tell.quarantined(bad, step)
        log, seen = self._ports.judge.log, step * self._batch_size
        if not self._ports.judge.policy.allows_quarantine(log.quarantined, seen):
            raise BadRecords(f"{log.quarantined} bad records among the first {seen} or so")

    def before(self, step: int, batch: Any) -> Any:
        return self._ports.strike(step, batch)

    def recoverable(self, error: Exception) -> bool:
        fault = self._describe(error, "step", None)
        decision = self._ports.judge.foresee(fault, self._capabilities(in_place=False))
        if decision.verdict != "continue":
            self._tell.event("loss_jump", f"{error}: left as it is, because {BASES[decision.basis]}", self.position)
        return decision.verdict == "continue"

    def stepped(self, position: Position, logs: dict[str, float], norm: float | None) -> None:
        self._untouched = False
        self._furthest = max(self._furthest, position.global_step)
        self._tell.step(position, logs, norm)

    def epoch_ended(self, epoch: int, position: Position, logs: dict[str, float]) -> None:
        self.last_metrics = logs
        self._tell.curve(position, logs)
        self._tell.points()
        self._tell.times(self._ports.stopwatch)

    def boundary(self, attempt: Attempt, *, epoch_end: bool) -> None:
        self._position = attempt.position
        asked = self._ports.stop_asked()
        if asked is not None:
            raise Preempted(asked)
        if attempt.phase == "validation":
            return
        keeper = self._ports.keeper
        last = epoch_end and attempt.position.epoch >= self._plan.epochs  # a longer job will go on from it
        if last:
            keeper.wait()
        if last or keeper.due(attempt.position, epoch_end=epoch_end):
            before = self._ports.stopwatch.switch("save_stall")
            self._tell.points()  # a checkpoint covers points that are in the journal
            logs = self.last_metrics if epoch_end else attempt.logs
            keeper.save(attempt.capture, self._ports.judge.log.attempt, epoch_end=epoch_end, logs=logs)
            self._ports.stopwatch.switch(before)
        if not last:
            self._grow(attempt)

    # -- leaving -----------------------------------------------------------------------------------------------------

    def save_and_leave(self) -> None:
        """Write the state at the last boundary, and wait until it is on disk and handed over for logging."""
        self._ports.stopwatch.switch("save_stall")
        if self._attempt is not None and self._attempt.at_boundary and self._whole:
            self._tell.points()
            self._ports.keeper.save_now(self._attempt.capture, self._ports.judge.log.attempt)
        self._settle()

    def capture(self) -> TrainingState:
        """The state that training is in, when it stands at a boundary or has ended."""
        assert self._attempt is not None
        return self._attempt.capture()

    @property
    def model(self) -> keras.Model:
        return self._plan.model

    @property
    def exporter(self) -> Exporter | None:
        """What writes logged models, once the model is whole."""
        return self._starting.exporter

    @property
    def stands_at_boundary(self) -> bool:
        """Whether training is between two steps, with nothing under way but waiting."""
        return self._attempt is not None and self._attempt.at_boundary and self._phase == "data"

    @property
    def has_done_nothing(self) -> bool:
        """Whether training has not come to a step since its last start: there is nothing that would be lost."""
        return self._untouched and self._phase in ("start", "restore", "trace")

    def digest(self) -> str:
        """The digest of the model and its optimiser as they are now."""
        return checkpoint.digest_of(TrainingState(tensors=state.snapshot(self._plan.model, state.LASTING)).arrays())

    # -- within ------------------------------------------------------------------------------------------------------

    def _grow(self, attempt: Attempt) -> None:
        """Try fewer pieces, when it is time: another attempt, without a fault."""
        settings, step = self._growth.due(attempt.settings, attempt.position.global_step), attempt.position.global_step
        if settings is None:
            return
        self._tell.points()
        reason = f"{self._growth.clean_steps} clean steps: half as many pieces are tried, once"
        self._ports.judge.change(settings, attempt.position, reason)
        self._tell.changes(settings, step)
        attempt.settings = settings

    def _capabilities(self, *, in_place: bool) -> Capabilities:
        return Capabilities(
            in_place=in_place,
            new_process=self._ports.new_process,
            checkpoint=self._starting.has_any,
            exact_split=microbatch.changes_result(self._plan.model) is None,
        )

    def _describe(self, error: BaseException, phase: Phase, batch_size: int | None) -> Fault:
        facts: dict[str, Any] = {}
        if isinstance(error, Preempted):
            facts["signal"] = int(signal.Signals[error.signal])
        fault = describe(
            error,
            phase=phase,
            position=self.position,
            batch_size=batch_size,
            device="GPU" if tf.config.list_logical_devices("GPU") else "CPU",
            jit=self._plan.model.jit_compile is True,
            time=time.time(),
            **facts,
        )
        return dataclasses.replace(fault, exception=error.signal) if isinstance(error, Preempted) else fault

    def _enter(self, phase: Phase, position: Position) -> None:
        self._phase = phase
        self._ports.beat(phase, position.global_step, position.epoch)

    def _settle(self) -> None:
        self._tell.points()
        self._ports.keeper.wait()
        self._tell.times(self._ports.stopwatch)
