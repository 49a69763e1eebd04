"""The composition root of training: one call of `fit` made resilient, with all that takes part in it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import keras

from mlflow_resilience import diagnosing, leaving, telemetry
from mlflow_resilience.change_log import ChangeLog
from mlflow_resilience.core.action import OlderCheckpoint
from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import Position, describe
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.core.loop import Leave, NeedsNewProcess, train
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.core.schedule import Retention, Schedule
from mlflow_resilience.doctor.finding import Finding
from mlflow_resilience.doctor.passing import Passing
from mlflow_resilience.ending import keep_end, log_final_model
from mlflow_resilience.errors import CheckpointError
from mlflow_resilience.fault_plan import PlannedFault
from mlflow_resilience.fits import Turn, tell_completed
from mlflow_resilience.job import Job
from mlflow_resilience.listeners import Listeners
from mlflow_resilience.recoveries import known
from mlflow_resilience.resuming import Resuming
from mlflow_resilience.sizes import Sizes
from mlflow_resilience.spool.heartbeat import Heartbeat
from mlflow_resilience.spool.journal import Journal, read
from mlflow_resilience.stop import StopRequests
from mlflow_resilience.surroundings import beating, surroundings
from mlflow_resilience.testing import Injector, Place
from mlflow_resilience.together import Together
from mlflow_resilience.training import build, checkpoint, completed
from mlflow_resilience.training.call import plan_of, steps_per_epoch
from mlflow_resilience.training.export import Exporter
from mlflow_resilience.training.keeper import Keeper
from mlflow_resilience.training.mending import asks
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.ports import Ports
from mlflow_resilience.training.remembering import remembers
from mlflow_resilience.training.state import TrainingState
from mlflow_resilience.training.stopwatch import Stopwatch
from mlflow_resilience.training.trainer import KerasTrainer

PREEMPTED, NEW_PROCESS = 75, 76


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """When to save and what to keep. ``every`` is the cadence of logged models; the local disk may see more.

    ``resume`` is ``auto``, ``never`` or a run id; ``keep`` a number, or as ``last=3,best=1,every=10``. ``replay``
    bounds what is kept of failed steps for `mlflow-resilience replay`, e.g. ``64MB``; ``none`` keeps nothing.
    """

    every: str = "auto"
    local: str = "auto"
    keep: str = "3"
    resume: str = "never"
    log_models: bool = True
    replay: str = "none"


@dataclass(kw_only=True)
class Outcome:
    """How a fit ended: its history; or the loop's word that it has to go on elsewhere or later."""

    history: keras.callbacks.History | None = None
    left: Leave | None = None
    new_process: NeedsNewProcess | None = None
    step: int = 0  # the global step that it has reached


def run_fit(
    job: Job,
    model: keras.Model,
    call: dict[str, Any],
    *,
    policy: Policy,
    checkpoints: Checkpoints,
    faults: tuple[PlannedFault, ...] = (),
    identity: Mapping[str, Any] | None = None,
    fit: Callable[..., Any] | None = None,
    turn: Turn | None = None,
    first_step: int = 0,
    together: Together | None = None,
) -> Outcome:
    """Train ``model`` with ``call``, the arguments of `fit`, through whatever can be recovered from.

    ``identity`` is what the resume key covers besides model and data. ``turn`` is the fit's place among those of a
    script that is started again, where it is passed by once it has ended. ``together``: with other processes. Raises
    what `fit` would raise where recovery cannot help, or RecoveryExhausted; UsageError or NothingToDo about a job to go
    on with.
    """
    model._assert_compile_called("fit")
    again, turn = turn is not None, turn or Turn(first_step=first_step)
    plan = plan_of(model, call, turn.first_step)
    extent = {"epochs": plan.epochs, "steps_per_epoch": steps_per_epoch(plan)}
    job.journal.append("event", name="fit", attempt=0, step=0, text="", data=extent)
    parts = _Parts(job, plan, policy, checkpoints, turn)
    with surroundings(job) as (heart, stop):
        heart.beat("start", plan.first_step, plan.initial_epoch)
        found = parts.find(checkpoints.resume, dict(identity or {}), together)
        if again and (passed := _pass_by(job, parts.folder, plan)) is not None:
            if not turn.begun:
                tell_completed(job, turn, passed.global_step)
            return Outcome(history=plan.history, step=passed.global_step)
        alone = together is None
        sizes = Sizes(job, parts.judge, keep=alone and not faults and not turn.index)
        if alone and found is None and not turn.index:
            sizes.offer()
        ports = parts.ports(heart, stop, found, faults)
        if together is not None:
            ports = replace(ports, stop_asked=lambda: together.stop_asked(stop))
            trainer = together.trainer(plan, ports, fit or model.fit)
        else:
            trainer = (_Restarted if again and _remembers(plan) else KerasTrainer)(plan, ports, fit or model.fit)
            stop.stuck = lambda signal: leaving.from_outside(job, trainer, parts.judge, signal, parts.listeners.close)
        try:
            result = _train(job, trainer, parts.judge)
        finally:
            stop.served.set()
            parts.keeper.close()
            sizes.remember()
            parts.listeners.close()
    if isinstance(result, Leave):
        return Outcome(left=result)
    if isinstance(result, NeedsNewProcess):
        return Outcome(new_process=result)
    if checkpoints.log_models:
        log_final_model(job, trainer, parts.judge)
    if again:
        keep_end(job, parts.folder, plan, trainer, turn)
    return Outcome(history=result, step=trainer.position.global_step)


class _Parts:
    """What takes part in a fit, wired together."""

    def __init__(self, job: Job, plan: Plan, policy: Policy, checkpoints: Checkpoints, turn: Turn) -> None:
        self._job, self._plan, self._checkpoints, self._turn = job, plan, checkpoints, turn
        self.folder = turn.checkpoints(job.folder.checkpoints)
        self.listeners = Listeners(job, policy, plan, self.folder, checkpoints.replay)
        told = (entry for entry, _ in read(job.folder.journal))
        self._journal = ChangeLog(cast(Journal, self.listeners.journal), told)
        self.judge = Judge(self._journal, policy, known(policy), job.log(), memory=telemetry.at_fault)
        diagnosing.tell_job(plan, self._journal, lambda: self.judge.log.attempt, job.folder.artifacts, turn.index)
        if turn.index and not turn.begun:  # what an earlier fit changed in the rate, or left out, is not this one's
            settings = self.judge.log.settings
            settings = replace(settings, learning_rate_scale=1.0, gradient_bound=None, skipped_batches=())
            self.judge.log.settings = settings
        self.keeper = _keeper(job, self.folder, checkpoints, self.judge, self._journal)

    def find(self, resume: str, identity: dict[str, Any], together: Together | None) -> TrainingState | None:
        """The state to go on from. Raises UsageError or NothingToDo about a job to go on with."""
        job, plan = self._job, self._plan
        with contextlib.suppress(Exception):  # it fails again within the loop, which judges it
            build.build(plan.model, build.element_spec(plan.training))
        if job.marks is not None:
            job.marks.tell("restoring")
        writing = replace(job, journal=cast(Journal, self._journal))
        resuming = Resuming(writing, self.keeper, plan, resume, identity, self._turn)
        if together is not None:
            return together.start(lambda: self._find(resuming), self.folder)
        return self._find(resuming)

    def _find(self, resuming: Resuming) -> TrainingState | None:
        while True:
            try:
                return resuming.find()
            except (OSError, MemoryError) as error:
                self._wait_for_storage(resuming, error)

    def _wait_for_storage(self, resuming: Resuming, error: Exception) -> None:
        """A checkpoint could not be read, though it may be whole: wait, take an older one, or raise ``error``."""
        fault = describe(error, phase="restore", position=self._plan.start)
        decision = self.judge.judge(fault, Capabilities(in_place=True, checkpoint=True))
        if decision.verdict != "continue":
            raise error
        time.sleep(decision.delay)
        if asks(decision, OlderCheckpoint):
            resuming.take_older()

    def ports(
        self, heart: Heartbeat, stop: StopRequests, found: TrainingState | None, faults: tuple[PlannedFault, ...]
    ) -> Ports:
        job, judge, model = self._job, self.judge, self._plan.model
        place = Place(folder=job.folder.path, checkpoints=self.folder, settle=self.keeper.wait, read=checkpoint.read)
        injector = Injector(faults, job.struck, lambda fault: _tell_strike(job, judge, heart, fault), place)
        return Ports(
            journal=self._journal,
            judge=judge,
            keeper=self.keeper,
            beat=beating(job, heart),
            stop_asked=lambda: stop.asked,
            strike=Passing(model, self._tell_finding).watching(self.listeners.watching(injector.strike)),
            new_process=job.supervised,
            stopwatch=Stopwatch(),
            find_resume=lambda: found,
            make_exporter=(lambda: Exporter(model)) if self._checkpoints.log_models else None,
            environment=telemetry.environment(),
        )

    def _tell_finding(self, step: int, finding: Finding) -> None:
        text = f"{finding.text}: {finding.remedy}"
        self._journal.append(
            "event", name="doctor", attempt=self.judge.log.attempt, step=step, text=text, data=finding.to_dict()
        )


def _train(job: Job, trainer: KerasTrainer, judge: Judge) -> keras.callbacks.History | NeedsNewProcess | Leave:
    """Through the loop; who was asked to leave has saved before this returns."""
    result = train(trainer, judge)
    if isinstance(result, Leave):
        trainer.save_and_leave()
        if job.supervised:
            leaving.see_to_its_end(job)
    return result


class _Restarted(KerasTrainer):
    """Goes back by a new process: what a script has read of such data before its fit would be missed in this one."""

    def prepare(self, decision: Decision | None) -> Position:
        if decision is not None:
            raise SystemExit(NEW_PROCESS)
        return super().prepare(decision)


def _remembers(plan: Plan) -> bool:
    return remembers(plan.training) or remembers(plan.validation)


def _pass_by(job: Job, folder: Path, plan: Plan) -> Position | None:
    """The end of this fit, where it has ended already and is now as it was left."""
    ended = completed.find(folder, plan)
    if ended is None:
        return None
    try:
        return completed.pass_by(plan, ended)
    except CheckpointError as error:
        text = f"the end of this fit cannot be restored, so that it is trained again: {error}"
        job.journal.append("event", name="checkpoint_unreadable", attempt=0, step=plan.first_step, text=text, data={})
        return None


def _keeper(job: Job, folder: Path, checkpoints: Checkpoints, judge: Judge, journal: ChangeLog) -> Keeper:
    return Keeper(
        folder,
        job.folder.path / "models",
        journal,
        local=Schedule.parse(checkpoints.local),
        logged=Schedule.parse(checkpoints.every),
        retention=Retention.parse(checkpoints.keep),
        failed=lambda error, position: _tell_unsaved(judge, error, position),
        earlier=(entry for entry, _ in read(job.folder.journal)),
        changes=journal.changes,
    )


def _tell_strike(job: Job, judge: Judge, heart: Heartbeat, fault: PlannedFault) -> None:
    if fault.kind == "slow_data":
        heart.leave("data")  # it is the batch that comes late, though it is here already
    job.journal.append(
        "event",
        durable=True,
        name="fault_on_purpose",
        attempt=judge.log.attempt,
        step=fault.step,
        text=f"fault on purpose: {fault}",
        data={"fault": str(fault)},
    )


def _tell_unsaved(judge: Judge, error: Exception, position: Position) -> None:
    """A write in the background failed: training goes on, and the journal has it."""
    fault = describe(error, phase="checkpoint", position=position)
    judge.judge(fault, Capabilities(in_place=True))
