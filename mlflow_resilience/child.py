"""The child's side of `mlflow-resilience run`: what happens in an unchanged script, as it imports Keras and MLflow.

Nothing here may break the script: what goes wrong is said, and left at that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from mlflow_resilience import job as jobs
from mlflow_resilience.spool.process import identity

_JOB = "MLFLOW_RESILIENCE_JOB"


def _harmless(act: Callable[[], None]) -> Callable[[], None]:
    def acting() -> None:
        try:
            act()
        except Exception as error:
            print(f"mlflow-resilience: fit is left as it is: {type(error).__name__}: {error}", file=sys.stderr)

    return acting


@_harmless
def after_keras() -> None:
    """Keras is there: from now on every `fit` is ours, here and not in the processes that this one starts."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise NotImplementedError(f"Keras runs on {keras.backend.backend()}, and recovery needs TensorFlow")
    job = jobs.join()
    os.environ.pop(_JOB, None)
    if job is not None:
        _keep_marks(job)
        jobs.listen_for_stacks(job)
        from mlflow_resilience.api import autolog

        autolog()


def _keep_marks(job: jobs.Job) -> None:
    """When this Python began and when Keras was there, to be told if it is this process that trains."""
    if job.marks is not None:
        began = getattr(sys.modules.get("sitecustomize"), "BEGAN", None)
        if began is not None:
            job.marks.keep("running", began)
        job.marks.keep("imported")


@_harmless
def after_mlflow() -> None:
    """MLflow is there: the runs that the script opens are written down, so that none is left open by its death."""
    from mlflow.tracking.fluent import ActiveRun

    job, plain = jobs.join(), ActiveRun.__init__
    if job is None:
        return

    def opened(run: Any, *args: Any, **kwargs: Any) -> None:
        plain(run, *args, **kwargs)
        _harmless(lambda: _tell_run(job, run))()

    ActiveRun.__init__ = opened


def _tell_run(job: jobs.Job, run: Any) -> None:
    if job.pid != os.getpid():
        return
    from mlflow import get_tracking_uri

    data = {"run_id": run.info.run_id, "tracking_uri": get_tracking_uri(), **identity("script")}
    text = f"the script has opened run {run.info.run_id}"
    job.journal.append("event", durable=True, name="script_run", attempt=0, step=0, text=text, data=data)
