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

from mlflow_resilience.core.action import Action, FreeDisk, OlderCheckpoint
from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import Fault, Phase, Position, describe
from mlflow_resilience.errors import BadRecords, CheckpointError, Preempted
from mlflow_resilience.training import (
    batches,
    build,
    checkpoint,
    environment,
    learning_rate,
    lighter,
    microbatch,
    preflight,
    pristine,
    randomness,
    reproducible,
    state,
)
from mlflow_resilience.training.attempt import Attempt
from mlflow_resilience.training.callback_state import CallbackStates
from mlflow_resilience.training.export import Exporter
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.ports import Ports
from mlflow_resilience.training.records import Bad
from mlflow_resilience.training.state import TrainingState
from mlflow_resilience.training.telling import Telling


class KerasTrainer:
    """Implements the loop's `Trainer` and the attempts' `Watch` over one call of `fit`."""

    def __init__(self, plan: Plan, ports: Ports, fit: Callable[..., Any]) -> None:
        self._plan, self._ports, self._fit = plan, ports, fit
        self._callbacks = CallbackStates(plan.all_callbacks)
        self._attempt: Attempt | None = None
        self._initial: TrainingState | None = None
        self._resume: TrainingState | None = None
        self.exporter: Exporter | None = None
        self.last_metrics: dict[str, float] = {}
        self._batch_size = 1  # of the batch that failed last
        self._tell = Telling(ports.journal, ports.judge, plan.model)
        self._position = plan.start
        self._furthest = 0
        self._resumed = False
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
        self._ports.stopwatch.switch("startup" if decision is None else "recovery")
        self._enter("restore" if decision is not None or self._resume is not None else "start", self._position)
        if decision is None:
            self._start()
        else:
            self._roll_back(decision)
        resume = self._resume
        self._position = self._plan.start if resume is None else Position(**resume.meta["position"])
        self._attempt = None
        return self._position

    def attempt(self) -> keras.callbacks.History:
        settings = self._ports.judge.settings
        plan, heavy = lighter.plan(dataclasses.replace(self._plan, resume=self._resume), settings)
        if heavy is not None:
            self._tell.event("not_lighter", heavy, self._position)
        held = Settings.from_dict(self._resume.meta["settings"]) if self._resume is not None else Settings()
        self._tell.settings = held
        self._tell.changes(settings, self._position.global_step)
        self._attempt = Attempt(plan, settings, self, self._fit, self._callbacks, held=held)
        self._ports.keeper.restart(self._position)
        try:
            history = self._attempt.run()
        finally:
            self._settle()
        return history

    def describe(self, error: BaseException) -> Fault:
        return self._describe(error, self._phase, None)

    # -- what an attempt tells and asks ------------------------------------------------------------------------------

    def begun(self, *, whole: bool) -> None:
        if whole and self._initial is None and self._position.global_step == self._plan.first_step:
            self._complete()  # the model could not be built before its data was there

    def restoring(self, meta: dict[str, Any]) -> AbstractContextManager[None]:
        return self._ports.keeper.restoring(Position(**meta["position"]))

    def restored(self, problems: list[str]) -> None:
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
            self._tell.inexact(ops, self._position, resumed=self._resumed)

    def entered(self, phase: Phase, position: Position) -> None:
        with self.gate:
            self._enter(phase, position)
        watch = self._ports.stopwatch
        if phase == "data":
            watch.switch("data_wait")
        elif phase in ("step", "trace"):
            replayed = position.global_step < self._furthest
            watch.switch("startup" if phase == "trace" else "replayed" if replayed else "productive")

    def judge(self, error: Exception, phase: Phase, *, batch_size: int | None, in_place: bool) -> Decision:
        self._ports.stopwatch.switch("recovery")
        self._tell.points()
        self._batch_size = batch_size or self._batch_size
        fault = self._describe(error, phase, batch_size)
        return self._ports.judge.in_step(error, fault, self._capabilities(in_place=in_place and not fault.jit))

    def in_force(self, decision: Decision) -> Settings:
        if _asks(decision, FreeDisk):
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

    def stepped(self, position: Position, logs: dict[str, float]) -> None:
        self._furthest = max(self._furthest, position.global_step)
        self._tell.curve(position, logs, "batch/")

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

    # -- leaving -----------------------------------------------------------------------------------------------------

    def save_and_leave(self) -> None:
        """Write the state at the last boundary, and wait until it is on disk and handed over for logging."""
        if self._attempt is not None and self._attempt.at_boundary:
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
    def stands_at_boundary(self) -> bool:
        """Whether training is between two steps, with nothing under way but waiting."""
        return self._attempt is not None and self._attempt.at_boundary and self._phase == "data"

    def digest(self) -> str:
        """The digest of the model and its optimiser as they are now."""
        return checkpoint.digest_of(TrainingState(tensors=state.snapshot(self._plan.model, state.LASTING)).arrays())

    # -- within ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        plan = self._plan
        whole = build.build(plan.model, build.element_spec(plan.training))
        plan.origin = {**plan.origin, "python": randomness.capture()["python"]}
        plan.environment = environment.facts(self._ports.environment)
        plan.rates = learning_rate.given(plan.model)
        preflight.say(plan, self._ports.journal)
        self._resume = self._ports.find_resume()
        if self._resume is not None:
            self._resumed = True
            preflight.say_of_resume(plan, self._resume.meta, self._ports.journal)
        if whole:
            self._complete()

    def _complete(self) -> None:
        """Model and optimiser are whole and nothing is trained yet: what has to be known of that is kept."""
        plan, model = self._plan, self._plan.model
        plan.exempt = state.not_finite(model)
        if self._ports.make_exporter is not None:
            self.exporter = self._ports.make_exporter()
        self._ports.keeper.begin(self.exporter, plan.exempt)
        self._ports.keeper.warn_of_space(state.size(model))
        if self._resume is None:
            self._initial = TrainingState(tensors=state.snapshot(model, state.LASTING))

    def _roll_back(self, decision: Decision) -> None:
        self._ports.keeper.wait()
        if _asks(decision, OlderCheckpoint):
            self._ports.keeper.set_newest_aside()
        found = self._ports.keeper.newest()
        self._renew_data(self._plan.first_step if found is None else int(found.meta["position"]["global_step"]))
        if found is not None:
            self._resume = found
            return
        self._resume = None
        if self._initial is None:
            raise CheckpointError("there is no checkpoint, and the state at the start was not kept")
        state.restore(self._plan.model, self._initial.tensors, state.LASTING)
        self._callbacks.reset()

    def _renew_data(self, step: int) -> None:
        plan = self._plan
        try:
            plan.training = batches.renewed(plan.training)
            plan.validation = batches.renewed(plan.validation) if plan.validation else None
        except pristine.NotCopyable as error:
            self._tell.semantic_change(f"the data after the roll-back comes in another order: {error}", step)

    def _capabilities(self, *, in_place: bool) -> Capabilities:
        return Capabilities(
            in_place=in_place,
            new_process=self._ports.new_process,
            checkpoint=self._initial is not None or self._ports.keeper.has_any,
            exact_split=microbatch.changes_result(self._plan.model) is None,
        )

    def _describe(self, error: BaseException, phase: Phase, batch_size: int | None) -> Fault:
        facts: dict[str, Any] = {}
        if isinstance(error, Preempted):
            facts["signal"] = int(signal.Signals[error.signal])
        return describe(
            error,
            phase=phase,
            position=self.position,
            batch_size=batch_size,
            device="GPU" if tf.config.list_logical_devices("GPU") else "CPU",
            jit=self._plan.model.jit_compile is True,
            time=time.time(),
            **facts,
        )

    def _enter(self, phase: Phase, position: Position) -> None:
        self._phase = phase
        self._ports.beat(phase, position.global_step, position.epoch)

    def _settle(self) -> None:
        self._tell.points()
        self._ports.keeper.wait()
        self._tell.times(self._ports.stopwatch)


def _asks(decision: Decision, action: type[Action]) -> bool:
    return any(isinstance(each, action) for each in decision.actions)
