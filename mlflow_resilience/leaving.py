"""Leaving for good: when training cannot come to its end by itself, or the process not to its own."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from mlflow_resilience.errors import Preempted

if TYPE_CHECKING:
    from mlflow_resilience.core.judge import Judge
    from mlflow_resilience.job import Job
    from mlflow_resilience.training.trainer import KerasTrainer

PREEMPTED = 75
_GRACE_SECONDS = 30.0  # where the job does not say


def from_outside(job: Job, trainer: KerasTrainer, judge: Judge, signal: str, wait: Callable[[], object]) -> None:
    """Training stands still while it waits for data, or traces the first step of a process that is there for it alone:
    save the last boundary from here, where that is not on disk, ``wait`` for whoever is being told, and end the
    process."""
    trainer.gate.acquire()  # and held: no step may begin while its state is taken, nor after
    if not trainer.stands_at_boundary and not (job.supervised and trainer.has_done_nothing):
        trainer.gate.release()
        return
    decision = judge.judge(trainer.describe(Preempted(signal)), trainer.capabilities)
    try:
        trainer.save_and_leave()
    except Exception:  # the last checkpoint stands; to stay here would leave training waiting for good
        traceback.print_exc()
    wait()
    if not job.supervised:
        end = {"outcome": "preempted", "exit_code": PREEMPTED, "text": decision.text}
        job.journal.append("job_ended", durable=True, owner_gone=True, **end)
    job.journal.close()
    os._exit(PREEMPTED)


def see_to_its_end(job: Job) -> None:
    """A pipeline that waits for its data for good cannot be taken down. A script has half of the grace period for what
    it does after its `fit`; then a process that has saved ends all the same."""
    seconds = float(job.entry.get("grace_seconds") or _GRACE_SECONDS) / 2
    timer = threading.Timer(seconds, os._exit, [PREEMPTED])
    timer.daemon = True
    timer.start()
