"""One sender's life: read, answer, deliver, beat, end."""

from __future__ import annotations

import logging
import time

from mlflow_resilience.core.redaction import redact
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.tracking.answering import Answering
from mlflow_resilience.tracking.carrying import Carrying
from mlflow_resilience.tracking.environment import environment_tags
from mlflow_resilience.tracking.executing import Executor
from mlflow_resilience.tracking.operations import OpenRun
from mlflow_resilience.tracking.pace import Later, Pace
from mlflow_resilience.tracking.projection import Projection
from mlflow_resilience.tracking.publisher import EventFiles, Publisher
from mlflow_resilience.tracking.pump import Pump
from mlflow_resilience.tracking.rendering import Renderers
from mlflow_resilience.tracking.runs import NoSuchRun
from mlflow_resilience.tracking.scout import Scout
from mlflow_resilience.tracking.state import SenderState

DELIVERED, GAVE_UP, INVALID = 0, 3, 4
TICK_SECONDS, ROUND_SECONDS, HURRY_SECONDS = 0.1, 0.5, 20.0
SERVER_ERRORS = 8  # answers of 500 to one operation before it is left out, where others get through

_log = logging.getLogger(__name__)


class Session:
    """Delivers one job. ``patience`` is how long it goes on trying, without success, after the job's end."""

    def __init__(self, folder: JobFolder, state: SenderState, renderers: Renderers, patience: float) -> None:
        self.folder, self.state, self.patience = folder, state, patience
        files = EventFiles(folder)
        self.scout = Scout(folder, folder.open_journal(), files)
        self._publisher = Publisher(files, renderers)
        self._executor = Executor(folder, state, self.scout, self._publisher)
        self._pump = Pump(folder.journal, Projection(environment_tags()), state, self._executor.execute)
        self._answering = Answering(folder, self.scout, state, lambda: self._executor.link.client)
        self._carrying = Carrying(folder, self.scout, lambda: self._executor.link.client)
        self._pace = Pace()
        self._next_round = 0.0
        self._end_seen: float | None = None
        self._saved = ""

    def run(self) -> int:
        """Until all is delivered (0), or it is given up: unreachable (3), or a store that can never work (4)."""
        try:
            while self.folder.journal.exists():
                try:
                    code = self._round()
                except OSError:
                    if self.folder.journal.exists():
                        raise
                    break  # the folder was removed meanwhile
                if code is not None:
                    return code
            return self._abandon()
        finally:
            self._executor.close()
            self._save(force=True)

    def _round(self) -> int | None:
        """Look, deliver, and remember; the exit code, once there is no more to do."""
        self._look()
        worked = self._deliver()
        self._save()
        code = self._finished(worked)
        if code is None and not worked:
            time.sleep(TICK_SECONDS)
        return code

    def _abandon(self) -> int:
        """Somebody removed the job's folder. Nothing more can be delivered, but its runs can be closed."""
        _log.error("the folder of job %s is gone", self.folder.job_id)
        begun = time.monotonic()
        while time.monotonic() - begun < self.patience or self.scout.is_owner_alive():
            try:
                self._executor.connect(0)
                if self._executor.abandon():
                    break
            except Later as later:
                _log.warning("waiting: %s", redact(later.text))
            time.sleep(1.0)
        return GAVE_UP

    def hurry(self) -> None:
        """We are asked to end: be less patient. While the job lives, its sender stays."""
        self.patience = min(self.patience, HURRY_SECONDS)

    def _look(self) -> None:
        self.scout.poll()
        self._answering.answer()
        self._carrying.look()
        self._executor.sparing.look()
        if self.scout.bury():
            _log.warning("the owner of job %s is gone without a word: its runs are closed", self.folder.job_id)
        if self.scout.ended and self._end_seen is None:
            self._end_seen = time.monotonic()
        if self.scout.changed:
            self.scout.changed = False
            self._publisher.mark()

    def _deliver(self) -> bool:
        """One round; whether anything was done."""
        if self.state.state == "invalid" or not self._pace.is_due() or time.monotonic() < self._next_round:
            return False
        try:
            self._executor.connect(self._pace.failures)
            worked = self._pump.step()
            if not worked:
                self._next_round = 0.0 if self.scout.ended else time.monotonic() + ROUND_SECONDS
                self._executor.when_idle()
        except NoSuchRun as error:
            _log.error("%s", error)
            self.state.say("invalid", str(error))
            return False
        except Later as later:
            self._wait(later)
            return False
        self._pace.succeeded()
        if self.state.state != "open":
            self.state.say("open")
        return worked

    def _wait(self, later: Later) -> None:
        waiting = self._pump.waiting
        self._pace.failed(later.seconds)
        if self._pace.failures == 1:
            _log.warning("waiting: %s", redact(later.text))
        is_its_own_fault = later.meaning in ("server_error", "credentials") and not isinstance(waiting, OpenRun | None)
        tries = SERVER_ERRORS if later.meaning == "server_error" else 1
        if is_its_own_fault and self._pace.failures >= tries and self._executor.others_get_through():
            self._executor.note(self._pump.skip(), later.text)
            self._pace.succeeded()
        else:
            self.state.say("unreachable", later.text.splitlines()[0])

    def _finished(self, worked: bool) -> int | None:
        if not self.scout.ended:
            return None
        if self.state.state == "invalid":
            return INVALID
        if not worked and self._pump.waiting is None and self._pace.failures == 0 and not self._carrying.is_waiting:
            self.scout.poll()
            if self._pump.delivered >= self.scout.entries:
                self.state.ended = True
                self.state.say("done")
                return DELIVERED
        clock = time.monotonic()
        if clock - max(self._pace.last_success, self._end_seen or clock) > self.patience:
            _log.warning("given up for now: %d journal entries wait on disk", self.state.pending)
            return GAVE_UP
        return None

    def _save(self, force: bool = False) -> None:
        if not self.folder.path.is_dir():
            return
        self.state.pending = max(self.scout.entries - self._pump.delivered, 0) + (self._pump.waiting is not None)
        if force or repr(self.state) != self._saved:
            self.state.save(self.folder.sender_state)
            self._saved = repr(self.state)
