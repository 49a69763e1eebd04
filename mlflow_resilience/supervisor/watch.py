"""One worker from its start to its end."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

from mlflow_resilience.core.redaction import redact
from mlflow_resilience.supervisor import kernel, stacks
from mlflow_resilience.supervisor.death import Ended
from mlflow_resilience.supervisor.hang import Beat, SlowData, read_beat
from mlflow_resilience.supervisor.job import LOOK_SECONDS, Job
from mlflow_resilience.supervisor.output import Pump
from mlflow_resilience.supervisor.worker import Worker, end_orphans

_LEFT_BEHIND_SECONDS = 1.0


class Watch:
    """Watches a worker that has just been started."""

    def __init__(self, job: Job, worker: Worker, attempt: int) -> None:
        self._job, self._worker, self._attempt = job, worker, attempt
        self._pump = Pump(worker.output, job.output, job.view.output)
        self._kills = kernel.oom_kills()
        self._asked: float | None = None
        self._overran = False
        self._silent: float | None = None
        self._hung_save = False
        job.worker_pid = worker.pid
        job.hangs.begin(read_beat(job.folder.heartbeat), time.monotonic())
        job.saves.begin(time.monotonic())

    def to_end(self) -> Ended:
        """How it ended; by then nothing that it started is left."""
        try:
            while not self._worker.has_ended():
                self._job.wait(LOOK_SECONDS)
                self._look()
        finally:
            noticed = time.time() - (self._silent or 0.0)
            code = self._worker.reap()
            self._job.worker_pid = None
            end_orphans(self._job.known_children, _LEFT_BEHIND_SECONDS if code == 0 else 0.0)
        if code:
            self._job.journal.append("mark", mark="ended", at=noticed, attempt=self._attempt)
        self._pump.join(2.0)
        return Ended(
            code=code,
            tail=redact(self._pump.tail(since=self._job.following.last_handled)),
            kernel_oom=code == -signal.SIGKILL and self._silent is None and self._was_killed_by_kernel(),
            silent_seconds=self._silent,
            beat=self._beat(),
        )

    def _beat(self) -> Beat | None:
        beat = self._job.hangs.beat
        return replace(beat, phase="checkpoint") if beat is not None and self._hung_save else beat

    def _look(self) -> None:
        job = self._job
        halted = kernel.is_stopped(self._trainer() or self._worker.pid)
        silent = job.hangs.see(read_beat(job.folder.heartbeat), time.monotonic(), halted=halted)
        if (slow := job.hangs.slow_data()) is not None:
            self._tell_slow(slow)
        if job.hangs.beat is not None:
            job.view.beat(job.hangs.beat.phase, job.hangs.beat.step)
        if job.at_once or job.refusal is not None:
            self._worker.kill()
        elif self._asked is not None:
            if not self._overran and time.monotonic() - self._asked > job.plan.grace_seconds:
                self._overrun()
        elif job.stop.reason is not None:
            self._asked = time.monotonic()
            self._worker.ask_to_stop(self._trainer())
        elif silent is not None and not self._worker.has_ended():
            self._end_hang(silent)
        elif (saving := job.saves.see(time.monotonic())) is not None:
            self._hung_save = True
            self._end_hang(saving)

    def _tell_slow(self, slow: SlowData) -> None:
        came = f"the batch of step {slow.step + 1} took {slow.seconds:.1f} s to come"
        self._job.journal.append(
            "event",
            name="slow_data",
            attempt=self._attempt,
            step=slow.step,
            text=f"{came}; until then {slow.longest:.1f} s at most",
            data={"seconds": round(slow.seconds, 3)},
        )

    def _overrun(self) -> None:
        self._overran = True
        text = f"the worker had not saved within the grace period of {self._job.plan.grace_seconds:g} s, and was killed"
        self._job.view.say(text)
        self._job.journal.append("event", name="grace_exceeded", attempt=self._attempt, text=text)
        self._worker.kill()

    def _end_hang(self, silent: float) -> None:
        self._silent = silent
        path = self._job.folder.artifacts / stacks.NAME.format(attempt=self._attempt)
        if stacks.ask(self._trainer() or self._worker.pid, path):
            self._job.journal.append("artifact", run=self._attempt, path=os.fspath(path), folder="resilience/stacks")
        self._worker.kill()

    def _trainer(self) -> int | None:
        """The process that trains, if it is another one of the worker's group than the one we started."""
        beat = self._job.hangs.beat
        if beat is None or beat.pid == self._worker.pid:
            return None
        try:
            return beat.pid if os.getpgid(beat.pid) == self._worker.pid else None
        except ProcessLookupError:
            return None

    def _was_killed_by_kernel(self) -> bool:
        kills = kernel.oom_kills()
        return kills is not None and self._kills is not None and kills > self._kills
