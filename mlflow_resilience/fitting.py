"""The composition root of training: one call of `fit` made resilient, with all that takes part in it."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import keras

from mlflow_resilience import leaving, telemetry
from mlflow_resilience.change_log import ChangeLog
from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import Position, describe
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.core.loop import Leave, NeedsNewProcess, train
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.core.redaction import redact
from mlflow_resilience.core.schedule import Retention, Schedule
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
from mlflow_resilience.testing import Injector, Place
from mlflow_resilience.training import build, checkpoint, completed
from mlflow_resilience.training.call import plan_of, steps_per_epoch
from mlflow_resilience.training.export import Exporter
from mlflow_resilience.training.keeper import Keeper
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.ports import Ports
from mlflow_resilience.training.remembering import remembers
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
) -> Outcome:
    """Train ``model`` with ``call``, the arguments of `fit`, through whatever can be recovered from.

    ``identity`` is what the resume key covers besides model and data. ``turn`` is the fit's place among those of a
    script that is started again, where it is passed by once it has ended. Raises what `fit` would raise where recovery
    cannot help, or RecoveryExhausted; UsageError or NothingToDo about a job to go on with.
    """
    model._assert_compile_called("fit")
    again, turn = turn is not None, turn or Turn(first_step=first_step)
    plan = plan_of(model, call, turn.first_step)
    extent = {"epochs": plan.epochs, "steps_per_epoch": steps_per_epoch(plan)}
    job.journal.append("event", name="fit", attempt=0, step=0, text="", data=extent)
    folder = turn.checkpoints(job.folder.checkpoints)
    listeners = Listeners(job, policy, plan, folder, checkpoints.replay)
    journal = ChangeLog(cast(Journal, listeners.journal), (entry for entry, _ in read(job.folder.journal)))
    judge = Judge(journal, policy, known(policy), job.log(), memory=telemetry.snapshot)
    if again and not turn.begun:  # what an earlier fit changed in the rate, or left out, is not this one's
        judge.log.settings = replace(judge.log.settings, learning_rate_scale=1.0, skipped_batches=())
    keeper = _keeper(job, folder, checkpoints, judge, journal)
    resuming = Resuming(
        replace(job, journal=cast(Journal, journal)), keeper, plan, checkpoints.resume, dict(identity or {}), turn
    )
    with _surroundings(job) as (heart, stop):
        heart.beat("start", plan.first_step, plan.initial_epoch)
        with contextlib.suppress(Exception):  # it fails again within the loop, which judges it
            build.build(model, build.element_spec(plan.training))
        if job.marks is not None:
            job.marks.tell("restoring")
        found = resuming.find()
        if again and (passed := _pass_by(job, folder, plan)) is not None:
            if not turn.begun:
                tell_completed(job, turn, passed.global_step)
            return Outcome(history=plan.history, step=passed.global_step)
        sizes = Sizes(job, judge, keep=not faults and not turn.index)
        if found is None and not turn.index:
            sizes.offer()
        place = Place(folder=job.folder.path, checkpoints=folder, settle=keeper.wait, read=checkpoint.read)
        injector = Injector(faults, job.struck, lambda fault: _tell_strike(job, judge, heart, fault), place)
        ports = Ports(
            journal=journal,
            judge=judge,
            keeper=keeper,
            beat=_beating(job, heart),
            stop_asked=lambda: stop.asked,
            strike=listeners.watching(injector.strike),
            new_process=job.supervised,
            stopwatch=Stopwatch(),
            find_resume=lambda: found,
            make_exporter=(lambda: Exporter(model)) if checkpoints.log_models else None,
            environment=telemetry.environment(),
        )
        trainer = (_Restarted if again and _remembers(plan) else KerasTrainer)(plan, ports, fit or model.fit)
        stop.stuck = lambda signal: leaving.from_outside(job, trainer, judge, signal)
        try:
            result = train(trainer, judge)
            if isinstance(result, Leave):
                trainer.save_and_leave()
                if job.supervised:
                    leaving.see_to_its_end(job)
        finally:
            stop.served.set()
            keeper.close()
            sizes.remember()
            listeners.close()
    if isinstance(result, Leave):
        return Outcome(left=result)
    if isinstance(result, NeedsNewProcess):
        return Outcome(new_process=result)
    if checkpoints.log_models:
        _log_final_model(job, trainer, judge)
    if again:
        _keep_end(job, folder, plan, trainer, turn)
    return Outcome(history=result, step=trainer.position.global_step)


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


def _keep_end(job: Job, folder: Path, plan: Plan, trainer: KerasTrainer, turn: Turn) -> None:
    """So that a script that is started again need not train this fit again."""
    try:
        completed.keep(folder, plan, trainer.capture())
        tell_completed(job, turn, trainer.position.global_step)
    except Exception as error:  # the fit itself has gone well
        text = f"the end of this fit could not be stored: {type(error).__name__}: {error}"
        job.journal.append("event", name="checkpoint_failed", step=trainer.position.global_step, text=text, data={})


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


@contextlib.contextmanager
def _surroundings(job: Job) -> Iterator[tuple[Heartbeat, StopRequests]]:
    """Heartbeat, memory readings and signals, for as long as training runs."""
    heart = Heartbeat(job.folder.heartbeat)
    stop = StopRequests(passed_on=job.asked_by)
    monitor = telemetry.Monitor(lambda points: _tell_gauges(job, points), started=job.started)
    try:
        with monitor, stop.listening():
            yield heart, stop
    finally:
        heart.leave("script")  # what comes next is not ours to watch
        heart.close()


def _beating(job: Job, heart: Heartbeat) -> Callable[[str, int, int], None]:
    marks = job.marks
    if marks is None:
        return heart.beat

    def beat(phase: str, step: int, epoch: int) -> None:
        heart.beat(phase, step, epoch)
        marks.beat(phase)

    return beat


def _tell_gauges(job: Job, points: list[Any]) -> None:
    job.journal.append("gauges", points=[list(point) for point in points])


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


def _log_final_model(job: Job, trainer: KerasTrainer, judge: Judge) -> None:
    exporter = trainer.exporter
    if exporter is None:
        return
    local_id = uuid.uuid4().hex[:16]
    folder = job.folder.path / "models" / local_id
    try:
        exporter.write_final(folder, trainer.model)
    except Exception as error:  # the training itself has gone well, and its last checkpoint is on disk
        shutil.rmtree(folder, ignore_errors=True)
        text = f"the finished model could not be logged: {type(error).__name__}: {error}"
        job.journal.append("event", name="model_failed", step=trainer.position.global_step, text=redact(text), data={})
        return
    outcome = "recovered" if judge.log.faults else "clean"
    job.journal.append(
        "model",
        durable=True,
        local_id=local_id,
        name="model",
        attempt=judge.log.attempt,
        step=trainer.position.global_step,
        epoch=trainer.position.epoch,
        digest=trainer.digest(),
        folder=str(folder),
        tags={"resilience.outcome": outcome, **exporter.tags},
        metrics=trainer.last_metrics,
        delete_after_upload=True,
    )
