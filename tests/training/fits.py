"""What runs in the children: plain `fit`, and ours in a job without MLflow."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np

from mlflow_resilience.core.policy import Policy
from mlflow_resilience.fitting import Checkpoints, Outcome, run_fit
from mlflow_resilience.job import Job
from mlflow_resilience.spool.folder import JobFolder, jobs
from mlflow_resilience.spool.journal import read
from mlflow_resilience.training import state
from mlflow_resilience.training.saver import Saver
from tests.training import anchored, omissions
from tests.training.children import digest
from tests.training.killing import Kill, Killer
from tests.training.pipelines import training

PREEMPTED = 75


def outcome(model: keras.Model, history: keras.callbacks.History) -> dict[str, Any]:
    """All that must be equal, bit for bit."""
    groups = {group: [np.asarray(state.value_of(v)) for v in state.variables(model, group)] for group in state.LASTING}
    return {
        "weights": digest(groups["model"]),
        "optimizer": digest(groups["optimizer"]),
        "untracked": digest(groups["untracked"]),
        "epochs": history.epoch,
        "history": {name: [float(value).hex() for value in values] for name, values in history.history.items()},
    }


def plain(folder: Path, pipeline: str) -> dict[str, Any]:
    model, call = training(pipeline)
    call["callbacks"].append(Killer([], folder))
    return outcome(model, model.fit(**call))


def resilient(
    folder: Path,
    pipeline: str,
    kills: list[Kill] | None = None,
    anchors: str | None = None,
    settled: bool = True,
    **how: Any,
) -> dict[str, Any]:
    """The training, or the rest of it, in the job of ``folder``.

    With ``settled`` a kill finds a state of shortly before.
    """
    if anchors is not None:
        anchored.ways(folder)[anchors]()
    model, call = training(pipeline)
    job = job_in(folder)
    call["callbacks"].append(Killer(kills or [], folder))
    job.journal.close()
    with without_running_ahead() if settled else contextlib.nullcontext():
        ended = fit_in(folder, model, call, **how)
    if ended.left is not None:
        raise SystemExit(PREEMPTED)
    assert ended.history is not None
    return outcome(model, ended.history)


def without_running_ahead() -> Any:
    """Inside, no step begins while a checkpoint is written: each that is due is there."""
    save = Saver.save

    def and_wait(saver: Saver, request: Any) -> None:
        save(saver, request)
        saver.wait()

    return mock.patch.object(Saver, "save", and_wait)


def resumed_incompletely(folder: Path, pipeline: str, killed: str, pieces: list[str]) -> dict[str, Any]:
    """The rest of the training that was killed, from the whole state and with each of these left out in turn."""
    told = {}
    for piece in (None, *pieces):
        copy = folder / (piece or "whole").replace(" ", "-")
        shutil.copytree(killed, copy)
        with omissions.OMISSIONS[piece]() if piece else contextlib.nullcontext():
            told[piece or "whole"] = resilient(copy, pipeline)
    return told


class Interruption(keras.callbacks.Callback):
    """Asks the training to end after so many steps of the whole job, as Ctrl-C does; without, it only watches."""

    def __init__(self, after: int | None) -> None:
        super().__init__()
        self._after = after
        self._steps = 0

    def get_state(self) -> dict[str, Any]:
        return {"steps": self._steps}

    def set_state(self, state: dict[str, Any]) -> None:
        self._steps = state["steps"]

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._steps += 1
        if self._steps == self._after:
            raise KeyboardInterrupt


def interrupted(folder: Path, make: Callable[[], Any], after: int, **how: Any) -> tuple[dict[str, Any], list[int]]:
    """What ``make`` gives is interrupted, and gone on with by a new model: the outcome, and where attempts began."""
    for stop in (after, None):
        model, call = make()
        call["callbacks"] = [*call.get("callbacks", []), Interruption(stop)]
        ended = fit_in(folder, model, call, **how)
    assert ended.history is not None
    return outcome(model, ended.history), [entry["step"] for entry in entries(folder) if entry["kind"] == "attempt"]


def fit_in(folder: Path, model: keras.Model, call: dict[str, Any], policy: Policy | None = None, **how: Any) -> Outcome:
    """One call of our `fit` in the job of ``folder``."""
    job = job_in(folder)
    checkpoints = Checkpoints(**{"local": "2steps", "every": "1epoch", "log_models": False, **how})
    try:
        return run_fit(job, model, call, policy=policy or Policy(), checkpoints=checkpoints)
    finally:
        job.journal.close()


def job_in(folder: Path) -> Job:
    """The job that lives in ``folder``: made by hand, supervised by nobody, sent nowhere."""
    found = jobs(folder)
    made = found[0] if found else JobFolder.create(folder)
    journal = made.open_journal()
    if not found:
        entry = {"job_id": made.job_id, "started": time.time()}
        journal.append("header", durable=True, job_id=made.job_id)
        journal.append("job", durable=True, **entry)
    return Job(folder=made, journal=journal, supervised=False, entry={"started": time.time()})


def entries(folder: Path) -> list[dict[str, Any]]:
    """The journal of the job in ``folder``."""
    return [entry for entry, _ in read(jobs(folder)[0].journal)]
