"""A supervised job between two looks: signals, parents, the journal, the sender."""

from __future__ import annotations

import os
import signal
import time

from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.spool.journal import Journal
from mlflow_resilience.supervisor import parents
from mlflow_resilience.supervisor.delivery import SenderKeeper
from mlflow_resilience.supervisor.following import Following
from mlflow_resilience.supervisor.grace import Grace
from mlflow_resilience.supervisor.hang import HangWatch
from mlflow_resilience.supervisor.output import OutputLog
from mlflow_resilience.supervisor.plan import Plan
from mlflow_resilience.supervisor.saving import SaveWatch
from mlflow_resilience.supervisor.signals import STOP, Signals, StopRequest
from mlflow_resilience.supervisor.spare import Spare
from mlflow_resilience.supervisor.view import View
from mlflow_resilience.supervisor.worker import reap_orphans

LOOK_SECONDS = 0.2


class Job:
    """All that lives as long as the job. ``stop`` is set once it was asked to end, ``at_once`` when asked again,
    ``refusal`` when the tracking store cannot be used at all."""

    def __init__(self, plan: Plan, view: View, folder: JobFolder, journal: Journal, signals: Signals) -> None:
        self.plan, self.view, self.folder, self.journal, self.signals = plan, view, folder, journal, signals
        self.following = Following(folder, view.entry, Grace(plan.grace_seconds))
        self.sender = SenderKeeper(folder, plan.sender_command, plan.environ)
        self.hangs = HangWatch(plan.limits)
        self.saves = SaveWatch(plan.limits, folder.checkpoints)
        self.output = OutputLog(folder.worker_log)
        self.spare = Spare(plan.spare_command, self.environ)
        self.stop = StopRequest()
        self.at_once = False
        self.refusal: str | None = None
        self.worker_pid: int | None = None
        self._next_look = 0.0

    @property
    def known_children(self) -> set[int]:
        """Those that are no orphans of a worker."""
        return {pid for pid in (self.worker_pid, self.sender.pid, self.spare.pid) if pid is not None}

    def environ(self) -> dict[str, str]:
        """The environment of a worker."""
        return {
            **os.environ,
            "PYTHONFAULTHANDLER": "1",  # a crash in native code then says where
            "PYTHONUNBUFFERED": "1",  # and its last lines are not lost
            **self.plan.environ,
            "MLFLOW_RESILIENCE_JOB": os.fspath(self.folder.path),
        }

    def wait(self, seconds: float) -> None:
        """Let time pass, less of it when a signal comes, and look after everything but the worker."""
        for number in self.signals.wait(seconds):
            if number in STOP:
                name = signal.Signals(number).name
                if self.stop.reason is None:
                    self.folder.tell_stop(name)
                self._ask_to_stop(name)
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SECONDS
            self._look()

    def _look(self) -> None:
        self.following.look()
        if (verdict := self.following.grace.verdict(self.hangs.longest("step"))) is not None:
            self.journal.append("event", name="grace_period", step=self.following.step, **verdict)
        self.sender.keep()
        self.refusal = self.refusal or self.sender.refusal()
        if self.plan.parents and self.stop.reason is None and parents.lost(self.plan.parents):
            self._ask_to_stop("the end of the process that started this job")
        if self.following.is_training and self.stop.reason is None:
            self.spare.keep()
        reap_orphans(self.known_children)

    def _ask_to_stop(self, reason: str) -> None:
        which = self.stop.ask(reason)
        if which == "first":
            data = {"by": reason, "grace_seconds": self.plan.grace_seconds}
            self.journal.append("event", name="stop_asked", step=self.following.step, text="", data=data)
            self.view.say(f"asked to stop by {reason}: saving, {self.plan.grace_seconds:.0f} s at most")
        elif which == "again" and not self.at_once:
            self.view.say("asked again: ending at once")
            self.at_once = True
