"""The supervisor's loop: one worker after another, until the job has ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.fault import Fault, Position
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.core.redaction import redact
from mlflow_resilience.notify import arm
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.spool.process import identity
from mlflow_resilience.supervisor import kernel
from mlflow_resilience.supervisor.death import Ended
from mlflow_resilience.supervisor.delivery import UNREACHABLE
from mlflow_resilience.supervisor.job import Job
from mlflow_resilience.supervisor.plan import Plan
from mlflow_resilience.supervisor.signals import Signals
from mlflow_resilience.supervisor.view import View
from mlflow_resilience.supervisor.watch import Watch
from mlflow_resilience.supervisor.worker import Worker

FINISHED, FAILED, USAGE, PREEMPTED, NEW_PROCESS = 0, 1, 2, 75, 76

Outcome = Literal["clean", "recovered", "failed", "preempted"]


@dataclass(frozen=True)
class Result:
    """How the job ended. ``text`` says why, where it did not finish; ``delivered`` whether MLflow has all of it."""

    folder: JobFolder
    outcome: Outcome
    exit_code: int
    text: str = ""
    delivered: bool = True


@dataclass(frozen=True)
class _End:
    outcome: Outcome
    exit_code: int
    text: str = ""


@dataclass(frozen=True)
class _Again:
    delay: float


def supervise(plan: Plan, view: View) -> Result:
    """Run the job to its end. For a process of its own: it takes signals over, and adopts and ends orphans."""
    folder = JobFolder.create(plan.home)
    with _opened(plan, view, folder) as job:
        end = _Supervisor(job).run()
        delivered = _deliver(job)
    return Result(folder, end.outcome, end.exit_code, end.text, delivered)


@contextlib.contextmanager
def _opened(plan: Plan, view: View, folder: JobFolder) -> Iterator[Job]:
    lease = folder.lease("supervisor")
    assert lease is not None, "a new job's folder cannot have an owner"
    arm(folder, plan.policy.notify)
    kernel.adopt_orphans()
    with lease, Signals() as signals, contextlib.closing(folder.open_journal()) as journal:
        job = Job(plan, view, folder, journal, signals)
        with contextlib.closing(job.output):
            yield job


class _Supervisor:
    def __init__(self, job: Job) -> None:
        self._job, self._plan, self._following = job, job.plan, job.following
        self._judge = Judge(job.journal, job.plan.policy, job.plan.recoveries, job.following.log)

    def run(self) -> _End:
        """From the first entry to ``job_ended``."""
        fields = {"job_id": self._job.folder.job_id, "started": time.time(), "cwd": os.getcwd(), **self._plan.job}
        self._job.journal.append("job", **fields)
        self._job.journal.append("owner", durable=True, **identity("supervisor"))
        self._job.sender.keep()
        end = self._without_tracking() or self._work()
        self._job.spare.give_up()
        self._close("FINISHED" if end.exit_code == FINISHED else "KILLED" if end.outcome == "preempted" else "FAILED")
        if end.exit_code != FINISHED:
            self._tell_lost()
        self._hand_over_output()
        self._job.journal.append("job_ended", durable=True, outcome=end.outcome, exit_code=end.exit_code, text=end.text)
        self._following.look()
        return end

    def _hand_over_output(self) -> None:
        """What the workers wrote becomes an artifact, TensorFlow's own noise included, secrets not."""
        path = self._job.folder.artifacts / "worker.log"
        try:
            path.write_text(redact(self._job.folder.worker_log.read_text(errors="replace")))
        except OSError:
            return  # a full disk
        self._job.journal.append("artifact", run="job", path=str(path), folder="resilience")

    def _work(self) -> _End:
        while True:
            after = self._one_worker()
            if isinstance(after, _End):
                return after
            self._job.journal.append("mark", mark="judged", at=time.time(), attempt=self._following.log.attempt)
            deadline = time.monotonic() + after.delay
            while (left := deadline - time.monotonic()) > 0 and not self._is_to_end():
                self._job.wait(min(left, 0.5))
            if self._is_to_end():
                return self._stopped()

    def _one_worker(self) -> _End | _Again:
        self._following.look()
        self._following.recent_decision = None
        opened = self._following.log.attempt
        number = self._following.log.current
        self._job.journal.append("mark", mark="started", at=time.time(), attempt=number)
        try:
            worker = self._from_spare(number) or self._started(number)
        except OSError as error:
            return _End("failed", USAGE, f"{self._plan.command[0]}: it cannot be started: {error.strerror}")
        ended = Watch(self._job, worker, number).to_end()
        self._following.look()
        if self._plan.opens_attempts and self._following.log.attempt == opened and not self._following.log.is_open:
            self._judge.begin(self._position(), "the command was started")
        return self._after(ended)

    def _started(self, number: int) -> Worker:
        return Worker(self._plan.command, {**self._job.environ(), "MLFLOW_RESILIENCE_ATTEMPT": str(number)})

    def _from_spare(self, number: int) -> Worker | None:
        """The warm spare, where there is one, and where it was not memory that ran out."""
        spare = self._job.spare
        if "host_oom" in self._following.log.standings:
            spare.give_up()
        held = spare.resident_mb()
        worker = spare.take(number)
        if worker is not None:
            text, data = "the warm spare goes on", {"resident_mb": None if held is None else round(held)}
            self._job.journal.append("event", name="warm_spare", attempt=number, text=text, data=data)
        return worker

    def _after(self, ended: Ended) -> _End | _Again:
        """What follows from a worker's end."""
        decision = self._following.recent_decision or {}
        verdict, text = decision.get("verdict"), str(decision.get("text") or "")
        if ended.code == FINISHED:
            return _End("recovered" if self._following.log.faults else "clean", FINISHED)
        if ended.code == FAILED and verdict == "stop":
            return _End("failed", FAILED, text)
        if self._is_to_end():
            return self._stopped()
        if ended.code == PREEMPTED:
            return _End("preempted", PREEMPTED, text)
        if ended.code == USAGE:
            return _End("failed", USAGE, ended.complaint)
        if ended.code == NEW_PROCESS and verdict == "continue":
            return _Again(float(decision.get("delay") or 0.0))
        return self._after_death(ended)

    def _after_death(self, ended: Ended) -> _End | _Again:
        self._judge.policy = self._policy()
        fault = ended.fault(self._following.step, self._following.epoch, begun=self._following.log.is_open)
        decision = self._judge.judge(fault, Capabilities(new_process=True))
        self._following.look()
        if decision.verdict == "continue":
            return _Again(decision.delay)
        if decision.verdict == "leave":
            return _End("preempted", PREEMPTED, decision.text)
        return _End("failed", FAILED, decision.text)

    def _policy(self) -> Policy:
        """Ours; where our command is a recipe with parameters of its own, no more than those allow either."""
        ours, told = self._plan.policy, self._following.config
        lost = [seconds for seconds in (ours.max_lost_time, told.get("max_lost_time")) if seconds is not None]
        return replace(
            ours,
            recover=ours.recover and bool(told.get("recover", True)),
            max_attempts=min(ours.max_attempts, int(told.get("max_attempts") or ours.max_attempts)),
            max_lost_time=min(lost, default=None),
        )

    def _is_to_end(self) -> bool:
        return self._job.stop.reason is not None or self._job.refusal is not None

    def _stopped(self) -> _End:
        if self._job.refusal is not None:
            return _End("failed", USAGE, self._job.refusal)
        self._tell_interruption()
        return _End("preempted", PREEMPTED, f"stopped by {self._job.stop.reason}; the same command goes on with it")

    def _tell_interruption(self) -> None:
        """The attempt of a worker that left without a word of its own has its fault too."""
        if self._following.log.is_open:
            name = self._job.folder.read_stop() or "SIGTERM"
            fault = Fault(
                exception=name,
                message=f"stopped by {self._job.stop.reason}",
                phase="process",
                position=self._position(),
                signal=int(signal.Signals[name]),
                time=time.time(),
            )
            self._judge.judge(fault, Capabilities())

    def _tell_lost(self) -> None:
        """What the job had done beyond its newest checkpoint, where it ends without having finished."""
        following = self._following
        steps = following.step - following.saved
        if following.log.attempt and steps > 0:
            seconds = max(0.0, time.time() - following.log.last_reached(following.saved))
            self._job.journal.append("lost", attempt=following.log.attempt, seconds=seconds, steps=steps)

    def _close(self, status: str) -> None:
        if self._following.log.is_open:
            self._judge.end(status, self._position())

    def _position(self) -> Position:
        return Position(global_step=self._following.step, epoch=self._following.epoch)

    def _without_tracking(self) -> _End | None:
        """The end of a job that may not train before MLflow has answered, when it does not."""
        if not self._plan.require_tracking:
            return None
        deadline = time.monotonic() + self._plan.tracking_wait_seconds
        while not self._job.sender.has_run():
            if self._is_to_end():
                return self._stopped()
            if time.monotonic() > deadline:
                return _End("failed", FAILED, UNREACHABLE)
            self._job.wait(0.2)
        return None


def _deliver(job: Job) -> bool:
    """Wait for the sender, which ends by itself once MLflow has everything."""
    if job.refusal is not None:
        return False
    job.sender.job_has_ended()
    begun, said = time.monotonic(), False
    while time.monotonic() - begun < job.plan.sender_wait_seconds and not job.at_once:
        if job.sender.has_delivered():
            return True
        if job.sender.has_given_up():
            return False
        if not said and time.monotonic() - begun > 3.0:
            said = True
            job.view.say("waiting for MLflow to take the rest")
        job.wait(0.1)
    return job.sender.has_delivered()
