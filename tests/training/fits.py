"""What runs in the children: plain `fit`, and ours in a job without MLflow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

from mlflow_resilience.core.policy import Policy
from mlflow_resilience.fitting import Checkpoints, run_fit
from mlflow_resilience.job import Job
from mlflow_resilience.spool.folder import JobFolder, jobs
from mlflow_resilience.spool.journal import read
from tests.training import omissions
from tests.training.children import digest
from tests.training.killing import Kill, Killer
from tests.training.pipelines import training

PREEMPTED = 75


def outcome(model: keras.Model, history: keras.callbacks.History) -> dict[str, Any]:
    """All that must be equal, bit for bit."""
    optimizer = [np.asarray(variable.value) for variable in model.optimizer.variables]
    return {
        "weights": digest([np.asarray(variable.value) for variable in model.variables]),
        "optimizer": digest(optimizer),
        "iterations": int(model.optimizer.iterations.numpy()),
        "epochs": history.epoch,
        "history": {name: [float(value).hex() for value in values] for name, values in history.history.items()},
    }


def plain(folder: Path, pipeline: str) -> dict[str, Any]:
    model, call = training(pipeline)
    call["callbacks"].append(Killer([], folder, folder))
    return outcome(model, model.fit(**call))


def resilient(
    folder: Path,
    pipeline: str,
    kills: list[Kill] | None = None,
    omit: str | None = None,
    local: str = "2steps",
    policy: Policy | None = None,
) -> dict[str, Any]:
    """The training, or the rest of it, in the job of ``folder``."""
    if omit is not None:
        omissions.leave_out(omit)
    model, call = training(pipeline)
    job = job_in(folder)
    call["callbacks"].append(Killer(kills or [], folder, job.folder.checkpoints))
    checkpoints = Checkpoints(local=local, every="1epoch", log_models=False)
    ended = run_fit(job, model, call, policy=policy or Policy(), checkpoints=checkpoints)
    job.journal.close()
    if ended.left is not None:
        raise SystemExit(PREEMPTED)
    assert ended.history is not None
    return outcome(model, ended.history)


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
