"""The two calls of the public surface that train: `fit`, and `autolog` for scripts that call `model.fit` themselves."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

import keras

from mlflow_resilience import job as jobs
from mlflow_resilience import testing
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.errors import Preempted, UsageError
from mlflow_resilience.fitting import PREEMPTED, Checkpoints, Outcome, run_fit
from mlflow_resilience.job import Job

_NEW_PROCESS = 76
_inside = threading.local()  # a fit within a fit (a callback that trains something small) is Keras's own


def fit(
    model: keras.Model,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    *,
    policy: Policy | None = None,
    checkpoints: Checkpoints | None = None,
    **arguments: Any,
) -> keras.callbacks.History:
    """Train as ``model.fit(x, y, batch_size, epochs, **arguments)`` would, and recover from what can be recovered from.

    Undisturbed, the weights are those of plain `fit`, bit for bit. Returns a `History` stitched over all attempts, each
    epoch once. Everything is logged to MLflow, in the run that is open or else in a new one, by a process beside this
    one: training never waits for it.

    Raises the original exception, untouched, where trying again cannot help; RecoveryExhausted, from the last fault,
    where recovery was tried and is spent; UsageError for arguments that make no sense. On Ctrl-C the state is saved and
    the KeyboardInterrupt goes on; on SIGTERM, SystemExit(75) is raised.
    """
    call = {"x": x, "y": y, "batch_size": batch_size, "epochs": epochs, **arguments}
    return _fit(model, call, policy or Policy(), checkpoints or Checkpoints(), model.fit)


def autolog(*, policy: Policy | None = None, checkpoints: Checkpoints | None = None) -> None:
    """From now on every ``model.fit`` in this process is :func:`fit`. Calling it again changes the settings."""
    original = getattr(keras.Model.fit, "_mlflow_resilience_original", keras.Model.fit)

    @functools.wraps(original)
    def resilient(model: keras.Model, *args: Any, **kwargs: Any) -> Any:
        plain = functools.partial(original, model)
        if getattr(_inside, "fit", False):
            return plain(*args, **kwargs)
        try:
            call = _bind(original, model, args, kwargs)
            return _fit(model, call, policy or Policy(), checkpoints or Checkpoints(), plain)
        except UsageError as error:
            warnings.warn(f"mlflow_resilience leaves this fit alone: {error}", stacklevel=2)
            return plain(*args, **kwargs)

    resilient._mlflow_resilience_original = original  # type: ignore[attr-defined]
    keras.Model.fit = resilient


def _bind(original: Callable[..., Any], model: keras.Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import inspect

    bound = inspect.signature(original).bind(model, *args, **kwargs)
    bound.arguments.pop("self", None)
    return dict(bound.arguments)


def _fit(
    model: keras.Model, call: dict[str, Any], policy: Policy, checkpoints: Checkpoints, plain: Callable[..., Any]
) -> keras.callbacks.History:
    job = jobs.join() or jobs.begin({"kind_of_job": "fit", "params": _params(call, policy)})
    _inside.fit = True
    try:
        outcome = run_fit(
            job, model, call, policy=policy, checkpoints=checkpoints, faults=testing.planned(), fit=plain
        )
    except BaseException as error:
        _end(job, "failed", 1, f"{type(error).__name__}: {error}")
        raise
    finally:
        _inside.fit = False
    return _concluded(job, outcome)


def _concluded(job: Job, outcome: Outcome) -> keras.callbacks.History:
    if outcome.new_process is not None:
        job.journal.close()
        raise SystemExit(_NEW_PROCESS)
    if outcome.left is not None:
        error, text = outcome.left.error, outcome.left.decision.text
        _end(job, "preempted", PREEMPTED, text)
        if isinstance(error, Preempted) and error.signal != "SIGINT":
            raise SystemExit(PREEMPTED)
        raise error
    _end(job, "recovered" if job.log().faults else "clean", 0)
    assert outcome.history is not None
    return outcome.history


def _end(job: Job, outcome: str, exit_code: int, text: str = "") -> None:
    """A supervisor ends its job itself: there may be another fit in this script."""
    if job.supervised:
        job.journal.close()
    else:
        jobs.end(job, outcome, exit_code, text)


def _params(call: dict[str, Any], policy: Policy) -> dict[str, str]:
    names = ("epochs", "batch_size", "steps_per_epoch", "validation_split")
    given = {name: str(call[name]) for name in names if call.get(name) is not None}
    return {**given, "recover": str(policy.recover).lower(), "max_attempts": str(policy.max_attempts)}
