"""Each operation to whoever carries it out; an error becomes a wait, or a note."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mlflow_resilience.spool import outage
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.tracking.continuing import Continuing
from mlflow_resilience.tracking.heartbeat import TAG, now
from mlflow_resilience.tracking.link import Link, connect
from mlflow_resilience.tracking.operations import Documents, EndRun, LogModel, OpenRun, Operation, Say
from mlflow_resilience.tracking.pace import Later
from mlflow_resilience.tracking.publisher import Publisher
from mlflow_resilience.tracking.refusals import judge
from mlflow_resilience.tracking.runs import NoSuchRun, is_ended
from mlflow_resilience.tracking.scout import Scout
from mlflow_resilience.tracking.sparing import Sparing
from mlflow_resilience.tracking.state import SenderState

CONNECT_TRIES = 4


class Executor:
    """Raises Later where something has to wait, and NoSuchRun where this job can never be tracked."""

    def __init__(self, folder: JobFolder, state: SenderState, scout: Scout, publisher: Publisher) -> None:
        self._folder, self._state, self._scout, self._publisher = folder, state, scout, publisher
        self._continuing = Continuing(state, folder.artifacts / "earlier")
        self.sparing = Sparing(folder, scout.record, state)
        self._link: Link | None = None
        self._ending = False

    @property
    def link(self) -> Link:
        """The way to the store. Raises ConnectionError while there is none."""
        if self._link is None:
            raise ConnectionError("there is no connection to the tracking store yet")
        return self._link

    def connect(self, failures: int) -> None:
        """Open the store, if it is not open. What is refused again and again will never work."""
        try:
            outage.meet(self._folder.path)
            if self._link is not None:
                return
            self._link = connect(self._folder, self._state, self._is_alive)
        except Exception as error:
            refusal = judge(error)
            if refusal.meaning == "refused" and failures >= CONNECT_TRIES:
                raise NoSuchRun(f"the tracking store cannot be opened: {refusal.text}") from error
            raise Later(refusal.text, "transient", refusal.seconds) from error

    def close(self) -> None:
        """No heartbeat begins after this."""
        if self._link is not None:
            self._link.heartbeat.stop()

    def execute(self, operation: Operation) -> None:
        """Carry it out, or have it waited for, or noted as refused."""
        if isinstance(operation, Say):
            self._scout.say(operation)
        elif isinstance(operation, LogModel) and self.sparing.spares(operation):
            return
        elif isinstance(operation, Documents):
            self._guard(operation, self._publish)
        else:
            if isinstance(operation, EndRun) and operation.run == "job":
                self._ending = True
                self.link.heartbeat.stop()
                self._guard(operation, self.link.delivery.runs.fold_twins)
            adapted = self._continuing.adapt(operation)
            self._guard(operation, lambda: self.link.delivery.execute(adapted))
            if isinstance(operation, OpenRun):
                self._check_opened(operation)

    def when_idle(self) -> None:
        """What is done besides, while the job runs: open a run again that others closed; documents now and then."""
        if self._scout.ended or self._state.run_id is None:
            return
        if self.link.heartbeat.closed_by_other.is_set() and not self._scout.record.job.get("caller_owns_end"):
            self._reopen(self._state.run_id)
        if self._publisher.due():
            self._guard(Documents(), self._publish)

    def abandon(self) -> bool:
        """The job's folder is gone: once its owner is too, close its runs. True when that is done."""
        if self._scout.is_owner_alive():
            return False
        self._ending = True
        for run, run_id in self._state.runs.items():
            self._guard(Documents(), partial(self._close, run, run_id))
        return True

    def _close(self, run: str, run_id: str) -> None:
        if is_ended(self.link.client.get_run(run_id)):
            return
        if run == "job":
            self.link.client.set_tag(run_id, "resilience.outcome", "failed")
        self.link.client.set_terminated(run_id, "FAILED")

    def note(self, operation: Operation, why: str) -> None:
        """Say what was refused."""
        self.link.delivery.problem(describe(operation), why)

    def others_get_through(self) -> bool:
        """Whether the store takes anything on our run: then it is the one operation that it does not like."""
        try:
            self.link.client.set_tag(str(self._state.run_id), TAG, now())
        except Exception:
            return False
        return True

    def _is_alive(self) -> bool:
        out = outage.is_on(self._folder.path)
        return not out and not self._ending and not self._scout.ended and self._scout.is_owner_alive()

    def _publish(self) -> None:
        if (run_id := self._state.run_id) is not None:
            self._continuing.fetch(self.link.client, run_id)
            self._publisher.publish(self._scout.record, self.link.delivery, self._continuing)

    def _reopen(self, run_id: str) -> None:
        self._guard(Documents(), lambda: self.link.client.update_run(run_id, status="RUNNING"))
        self.link.heartbeat.closed_by_other.clear()
        text = "the run was ended by somebody else while the job runs: opened again"
        step, attempt = self._scout.record.last_step, len(self._scout.record.attempts)
        self._scout.append("event", name="run_reopened", attempt=attempt, step=step, text=text, data={})

    def _guard(self, operation: Operation, act: Callable[[], object]) -> None:
        try:
            act()
        except NoSuchRun:
            raise
        except Exception as error:
            refusal = judge(error)
            if refusal.meaning not in ("refused", "duplicate"):
                raise Later(refusal.text, refusal.meaning, refusal.seconds) from error
            if refusal.meaning == "refused":
                self.note(operation, refusal.text)

    def _check_opened(self, operation: OpenRun) -> None:
        if operation.run == "job" and self._state.run_id is None:
            why = self._state.problems[-1]["why"] if self._state.problems else "the run could not be opened"
            raise NoSuchRun(why)
        self._state.save(self._folder.sender_state)


def describe(operation: Operation) -> str:
    """An operation in a few words."""
    what = getattr(operation, "path", None) or getattr(operation, "local_id", None) or ""
    return " ".join(str(part) for part in (type(operation).__name__, getattr(operation, "run", ""), what) if part)
