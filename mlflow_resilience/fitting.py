"""The composition root of training: one call of `fit` made resilient, with all that takes part in it."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from mlflow_resilience import telemetry
from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.fault import Position, describe
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.core.loop import Leave, NeedsNewProcess, train
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.core.schedule import Retention, Schedule
from mlflow_resilience.errors import Preempted
from mlflow_resilience.fault_plan import PlannedFault
from mlflow_resilience.job import Job
from mlflow_resilience.recoveries import known
from mlflow_resilience.resuming import Resuming
from mlflow_resilience.spool.heartbeat import Heartbeat
from mlflow_resilience.stop import StopRequests
from mlflow_resilience.testing import Injector
from mlflow_resilience.training.call import plan_of
from mlflow_resilience.training.export import Exporter
from mlflow_resilience.training.keeper import Keeper
from mlflow_resilience.training.stopwatch import Stopwatch
from mlflow_resilience.training.trainer import KerasTrainer, Ports

PREEMPTED = 75


@dataclass(frozen=True, kw_only=True)
class Checkpoints:
    """When to save and what to keep. ``every`` is the cadence of logged models; the local disk may see more.

    ``resume`` is ``auto``, ``never`` or a run id; ``keep`` a number, or as ``last=3,best=1,every=10``.
    """

    every: str = "auto"
    local: str = "auto"
    keep: str = "3"
    resume: str = "never"
    log_models: bool = True


@dataclass(kw_only=True)
class Outcome:
    """How a fit ended: its history; or the loop's word that it has to go on elsewhere or later."""

    history: keras.callbacks.History | None = None
    left: Leave | None = None
    new_process: NeedsNewProcess | None = None
    nothing_to_do: str | None = None


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
) -> Outcome:
    """Train ``model`` with ``call``, the arguments of `fit`, through whatever can be recovered from.

    ``identity`` is what the resume key covers besides model and data. Raises what `fit` would raise where recovery
    cannot help, or RecoveryExhausted.
    """
    model._assert_compile_called("fit")
    plan = plan_of(model, call)
    judge = Judge(job.journal, policy, known(policy), job.log(), memory=telemetry.snapshot)
    keeper = _keeper(job, checkpoints, judge)
    resuming = Resuming(job, keeper, plan, checkpoints.resume, dict(identity or {}))
    with _surroundings(job) as (heart, stop):
        ports = Ports(
            journal=job.journal,
            judge=judge,
            keeper=keeper,
            beat=heart.beat,
            stop_asked=lambda: stop.asked,
            strike=Injector(faults, job.struck, lambda fault: _tell_strike(job, judge, fault)).strike,
            new_process=job.supervised,
            stopwatch=Stopwatch(),
            find_resume=resuming.find,
            make_exporter=(lambda: Exporter(model)) if checkpoints.log_models else None,
        )
        trainer = KerasTrainer(plan, ports, fit or model.fit)
        stop.stuck = lambda signal: _leave_from_outside(job, trainer, judge, signal)
        try:
            result = train(trainer, judge)
            if isinstance(result, Leave):
                trainer.save_and_leave()
        finally:
            stop.served.set()
            keeper.close()
    if isinstance(result, Leave):
        return Outcome(left=result)
    if isinstance(result, NeedsNewProcess):
        return Outcome(new_process=result)
    if checkpoints.log_models:
        _log_final_model(job, trainer, judge)
    return Outcome(history=result)


def _keeper(job: Job, checkpoints: Checkpoints, judge: Judge) -> Keeper:
    return Keeper(
        job.folder.checkpoints,
        job.folder.path / "models",
        job.journal,
        local=Schedule.parse(checkpoints.local),
        logged=Schedule.parse(checkpoints.every),
        retention=Retention.parse(checkpoints.keep),
        failed=lambda error, position: _tell_unsaved(judge, error, position),
    )


@contextlib.contextmanager
def _surroundings(job: Job) -> Iterator[tuple[Heartbeat, StopRequests]]:
    """Heartbeat, memory readings and signals, for as long as training runs."""
    heart = Heartbeat(job.folder.heartbeat)
    stop = StopRequests()
    monitor = telemetry.Monitor(lambda points: _tell_gauges(job, points), started=job.started)
    try:
        with monitor, stop.listening():
            yield heart, stop
    finally:
        heart.close()


def _tell_gauges(job: Job, points: list[Any]) -> None:
    job.journal.append("gauges", points=[list(point) for point in points])


def _tell_strike(job: Job, judge: Judge, fault: PlannedFault) -> None:
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


def _leave_from_outside(job: Job, trainer: KerasTrainer, judge: Judge, signal: str) -> None:
    """Training stands still while it waits for data: save the last boundary from here, and end the process."""
    if not trainer.stands_at_boundary:
        return
    decision = judge.judge(trainer.describe(Preempted(signal)), trainer.capabilities)
    trainer.save_and_leave()
    if not job.supervised:
        job.journal.append("job_ended", durable=True, outcome="preempted", exit_code=PREEMPTED, text=decision.text)
    job.journal.close()
    os._exit(PREEMPTED)


def _log_final_model(job: Job, trainer: KerasTrainer, judge: Judge) -> None:
    exporter = trainer.exporter
    if exporter is None:
        return
    local_id = uuid.uuid4().hex[:16]
    folder = job.folder.path / "models" / local_id
    exporter.write_final(folder, trainer.model)
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
