"""What follows a fit that has ended: its model is logged, and its end kept for a script that is started again."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from mlflow_resilience.core.judge import Judge
from mlflow_resilience.core.redaction import redact
from mlflow_resilience.fits import Turn, tell_completed
from mlflow_resilience.job import Job
from mlflow_resilience.spool.journal import read
from mlflow_resilience.training import completed
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.trainer import KerasTrainer


def log_final_model(job: Job, trainer: KerasTrainer, judge: Judge) -> None:
    """The finished model goes into the journal, once, where it can be written; that it cannot ends nothing."""
    exporter = trainer.exporter
    if exporter is None or _is_logged(job, trainer):
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


def _is_logged(job: Job, trainer: KerasTrainer) -> bool:
    """By an earlier process, which ended after its training had."""
    job.journal.flush()
    models = (entry for entry, _ in read(job.folder.journal) if entry.get("kind") == "model")
    mine = {"name": "model", "step": trainer.position.global_step, "digest": trainer.digest()}
    return any(mine.items() <= entry.items() for entry in models)


def keep_end(job: Job, folder: Path, plan: Plan, trainer: KerasTrainer, turn: Turn) -> None:
    """So that a script that is started again need not train this fit again."""
    try:
        completed.keep(folder, plan, trainer.capture())
        tell_completed(job, turn, trainer.position.global_step)
    except Exception as error:  # the fit itself has gone well
        text = f"the end of this fit could not be stored: {type(error).__name__}: {error}"
        job.journal.append("event", name="checkpoint_failed", step=trainer.position.global_step, text=text, data={})
