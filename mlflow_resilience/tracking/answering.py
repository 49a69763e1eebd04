"""Answers the worker's questions, as early as they can be answered."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from mlflow_resilience.spool import atomic
from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.tracking.candidates import Question
from mlflow_resilience.tracking.lookup import Lookup, fresh, refuse
from mlflow_resilience.tracking.refusals import judge
from mlflow_resilience.tracking.scout import Scout
from mlflow_resilience.tracking.state import SenderState

ASK_SECONDS = 20.0  # how long a job may wait for MLflow before it starts without its word

_log = logging.getLogger(__name__)


class Answering:
    """One answer a question, in ``answers/<request>.json``."""

    def __init__(self, folder: JobFolder, scout: Scout, state: SenderState, client: Callable[[], Any]) -> None:
        self._scout, self._state = scout, state
        self._lookup = Lookup(folder, client, state)
        self._folder = folder
        self._waiting_since: dict[str, float] = {}

    def answer(self) -> None:
        """Answer what can be answered now; the rest is tried again."""
        waiting = []
        for ask in self._scout.asks:
            reply = self._reply(ask)
            if reply is None:
                waiting.append(ask)
            else:
                self._give(ask, reply)
        self._scout.asks = waiting

    def _give(self, ask: Entry, reply: dict[str, Any]) -> None:
        if reply.get("lineage"):
            self._scout.append(
                "event", name="lineage", text=str(reply["text"]), data=reply["lineage"], attempt=0, step=0
            )
        atomic.write_json(self._scout.answer_path(ask), reply)

    def _reply(self, ask: Entry) -> dict[str, Any] | None:
        if ask.get("question") != "resume":
            return refuse(f"no such question: {ask.get('question')}")
        job = {**self._scout.record.job, "params": self._scout.record.params}
        experiment_id = self._state.experiment_id
        job["experiment_id"] = job.get("experiment_id") or experiment_id
        question = Question.of(ask, job, self._folder.job_id, self._state.run_id or job.get("run_id"))
        since = self._waiting_since.setdefault(str(ask.get("request")), time.monotonic())
        try:
            return self._lookup.answer(question)
        except Exception as error:
            refusal = judge(error)
            _log.warning("looking for an earlier job: %s", refusal.text)
            if refusal.meaning != "refused" and time.monotonic() - since < ASK_SECONDS:
                return None
            return self._without_mlflow(question, refusal.text)

    def _without_mlflow(self, question: Question, why: str) -> dict[str, Any]:
        text = f"MLflow could not be asked for earlier jobs ({why.splitlines()[0]})"
        if question.resume != "auto":
            return refuse(f"{question.resume} cannot be found on this machine, and {text}")
        return fresh(f"starting at step 0: no earlier job on this machine, and {text}")
