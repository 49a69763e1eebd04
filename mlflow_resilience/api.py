"""The two calls of the public surface that train: `fit`, and `autolog` for scripts that call `model.fit` themselves."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import keras

from mlflow_resilience import fault_plan, fits, testing
from mlflow_resilience import job as jobs
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.errors import Preempted, UsageError
from mlflow_resilience.fitting import NEW_PROCESS, PREEMPTED, Checkpoints, run_fit
from mlflow_resilience.job import Job
from mlflow_resilience.resuming import NothingToDo
from mlflow_resilience.training.call import plan_of

_FINISHED, _USAGE = 0, 2
_inside = threading.local()  # a fit within a fit (a callback that trains something small) is Keras's own
_calls = itertools.count()
_steps_in_run: dict[str, int] = {}  # optimiser steps that earlier fits of this process have put into a run


@dataclass
class _Automatic:
    policy: Policy | None = None
    checkpoints: Checkpoints | None = None
    pid: int | None = None  # of the process in which `model.fit` is ours


_automatic = _Automatic()


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
    return _fit(model, call, policy, checkpoints, model.fit)


def autolog(*, policy: Policy | None = None, checkpoints: Checkpoints | None = None) -> None:
    """From now on every ``model.fit`` in this process is :func:`fit`. Calling it again changes the settings.

    Under `mlflow-resilience run`, which calls it by itself, what is not given here is as `run` was told.
    """
    _automatic.policy, _automatic.checkpoints = policy, checkpoints
    if _automatic.pid is not None:
        _automatic.pid = os.getpid()
        return
    _automatic.pid = os.getpid()
    original = keras.Model.fit

    @functools.wraps(original)
    def resilient(model: keras.Model, *args: Any, **kwargs: Any) -> Any:
        plain = functools.partial(original, model)
        if getattr(_inside, "fit", False) or _automatic.pid != os.getpid():
            return plain(*args, **kwargs)
        call = _bind(original, model, args, kwargs)
        try:
            plan_of(model, call)
        except UsageError as error:
            warnings.warn(f"mlflow_resilience leaves this fit as it is: {error}", stacklevel=2)
            return plain(*args, **kwargs)
        return _fit(model, call, _automatic.policy, _automatic.checkpoints, plain)

    keras.Model.fit = resilient


def _bind(
    original: Callable[..., Any], model: keras.Model, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    bound = inspect.signature(original).bind(model, *args, **kwargs)
    bound.arguments.pop("self", None)
    return dict(bound.arguments)


def _fit(
    model: keras.Model,
    call: dict[str, Any],
    policy: Policy | None,
    checkpoints: Checkpoints | None,
    plain: Callable[..., Any],
) -> keras.callbacks.History:
    job = jobs.join()
    _inside.fit = True
    try:
        if job is None:
            return _fit_alone(model, call, policy or Policy(), checkpoints or Checkpoints(), plain)
        if not job.claim():
            warnings.warn("mlflow_resilience leaves this fit as it is: another process of the job trains", stacklevel=4)
            return plain(**call)
        return _fit_supervised(job, model, call, policy, checkpoints, plain)
    finally:
        _inside.fit = False


def _fit_alone(
    model: keras.Model, call: dict[str, Any], policy: Policy, checkpoints: Checkpoints, plain: Callable[..., Any]
) -> keras.callbacks.History:
    """As a job of its own, that this process looks after."""
    job = jobs.begin({"kind_of_job": "fit", "params": _params(call, policy)})
    run = str(job.entry.get("run_id") or job.folder.job_id)
    first_step = _steps_in_run.get(run, 0)
    try:
        outcome = run_fit(
            job, model, call, policy=policy, checkpoints=checkpoints, faults=testing.planned(), fit=plain,
            first_step=first_step,
        )  # fmt: skip
    except BaseException as error:
        jobs.end(job, "failed", 1, f"{type(error).__name__}: {error}")
        raise
    if outcome.left is not None:
        jobs.end(job, "preempted", PREEMPTED, outcome.left.decision.text)
        reason = outcome.left.error
        if isinstance(reason, Preempted) and reason.signal != "SIGINT":
            raise SystemExit(PREEMPTED)
        raise reason
    _steps_in_run[run] = outcome.step
    jobs.end(job, "recovered" if job.log().faults else "clean", 0)
    assert outcome.history is not None
    return outcome.history


def _fit_supervised(
    job: Job,
    model: keras.Model,
    call: dict[str, Any],
    policy: Policy | None,
    checkpoints: Checkpoints | None,
    plain: Callable[..., Any],
) -> keras.callbacks.History:
    """As one of the fits of the supervisor's job, which goes on in another process where this one cannot."""
    turn = fits.take_turn(job, next(_calls))
    policy = policy or _policy(job)
    if not turn.begun:
        prefix = f"fit_{turn.index}." if turn.index else ""
        params = {f"{prefix}{name}": value for name, value in _params(call, policy).items()}
        job.journal.append("params", run="job", params=params)
    try:
        outcome = run_fit(
            job,
            model,
            call,
            policy=policy,
            checkpoints=_checkpoints(job, checkpoints),
            faults=fault_plan.parse(str(job.config.get("fault") or "")) + testing.planned(),
            identity={"program": fits.program()},
            fit=plain,
            turn=turn,
        )
    except NothingToDo as done:
        print(done)
        _leave(job, _FINISHED)
    except UsageError as error:
        print(f"mlflow-resilience: {error}", file=sys.stderr)
        _leave(job, _USAGE)
    except SystemExit as asked:
        _leave(job, asked.code)
    finally:
        job.journal.flush()
    if outcome.new_process is not None:
        _leave(job, NEW_PROCESS)
    if outcome.left is not None:
        _leave(job, PREEMPTED)
    assert outcome.history is not None
    return outcome.history


def _leave(job: Job, code: Any) -> NoReturn:
    """End this process for its supervisor. Runs that the script has open get their true end first, which MLflow's own
    handler at exit would not give them."""
    mlflow: Any = sys.modules.get("mlflow")
    status = {_FINISHED: "FINISHED", PREEMPTED: "KILLED"}.get(code, "FAILED")
    with contextlib.suppress(Exception):  # a store out of reach: the sender closes them when it comes back
        while mlflow is not None and mlflow.active_run() is not None:
            mlflow.end_run(status)
    job.journal.flush()
    raise SystemExit(code)


def _policy(job: Job) -> Policy:
    names = ("recover", "max_attempts", "max_lost_time")
    given = {name: job.config[name] for name in names if name in job.config}
    return Policy.named(str(job.config.get("policy") or "default"), **given)


def _checkpoints(job: Job, given: Checkpoints | None) -> Checkpoints:
    """What the script asks for, or else what the supervisor was told; where to go on from is the supervisor's word."""
    told = {"every": "checkpoint_every", "keep": "keep", "resume": "resume", "replay": "replay"}
    values: dict[str, Any] = {name: str(job.config[key]) for name, key in told.items() if key in job.config}
    return Checkpoints(**values) if given is None else replace(given, resume=values.get("resume", given.resume))


def _params(call: dict[str, Any], policy: Policy) -> dict[str, str]:
    names = ("epochs", "batch_size", "steps_per_epoch", "validation_split")
    given = {name: str(call[name]) for name in names if call.get(name) is not None}
    return {"epochs": "1", **given, "recover": str(policy.recover).lower(), "max_attempts": str(policy.max_attempts)}
