"""The worker: trains a recipe for the supervisor that started it."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from typing import Any, NoReturn

from mlflow_resilience import equipping, fault_plan, recipe, shrinking
from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import describe
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.errors import RecoveryExhausted, UsageError
from mlflow_resilience.job import Job, join, listen_for_stacks
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.recoveries import known
from mlflow_resilience.spool.heartbeat import Heartbeat
from mlflow_resilience.together import Together

FINISHED, FAILED, USAGE, PREEMPTED, NEW_PROCESS = 0, 1, 2, 75, 76


def main() -> int:
    """Train to the end, or until another process or another day has to go on: the exit code says which."""
    job = join()
    if job is None:
        print("mlflow_resilience.worker: started without a job; use mlflow-resilience train", file=sys.stderr)
        return USAGE
    assert job.marks is not None
    job.marks.tell("running")
    listen_for_stacks(job)
    parameters = Parameters.from_dict(job.entry.get("config") or {})
    try:
        return train(job, parameters)
    except UsageError as error:
        print(f"mlflow-resilience: {error}", file=sys.stderr)
        return USAGE
    finally:
        job.journal.close()


def train(job: Job, parameters: Parameters, together: Together | None = None) -> int:
    """The same for a job at hand; ``together`` with the other processes of a group."""
    policy, alone = parameters.rules(), together is None or together.is_chief
    try:
        with contextlib.closing(Heartbeat(job.folder.heartbeat)) as heart:
            heart.beat("start", 0)
            _import(job)
            heart.leave("build")
            made = _make(job, parameters, together)
    except UsageError:
        raise
    except Exception as error:
        if together is not None:
            _show(error)
            return together.broken(describe(error, phase="start"))
        return _end_before_training(job, policy, error)
    from mlflow_resilience.fitting import Checkpoints, run_fit
    from mlflow_resilience.resuming import NothingToDo

    try:
        outcome = run_fit(
            job,
            made["model"],
            made["call"],
            policy=policy,
            checkpoints=Checkpoints(
                every=parameters.checkpoint_every,
                keep=str(parameters.keep),
                resume=parameters.resume if alone else "never",
                log_models=alone,
                replay=parameters.replay,
            ),
            faults=fault_plan.parse(parameters.fault) if alone else (),
            identity=made["identity"],
            together=together,
        )
    except NothingToDo as done:
        print(done)
        return FINISHED
    except UsageError:
        raise
    except RecoveryExhausted as error:
        _show(error.__cause__ or error)
        return FAILED
    except Exception as error:
        _show(error)
        return FAILED
    if outcome.left is not None:
        if together is not None:
            return PREEMPTED
        _leave(job)
    if outcome.new_process is not None:
        return NEW_PROCESS
    if together is None:
        shrinking.make_smaller(job, parameters, made["model"], made["call"], outcome.step)
    return FINISHED


def _leave(job: Job) -> NoReturn:
    """At once, while all of the training still stands: a pipeline that waits for its data cannot be taken down."""
    job.journal.close()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(PREEMPTED)


def _import(job: Job) -> None:
    """TensorFlow, Keras and what of ours is built on them: the longest part of a start."""
    importlib.import_module("mlflow_resilience.fitting")
    if job.marks is not None:
        job.marks.tell("imported")


def _make(job: Job, parameters: Parameters, together: Together | None) -> dict[str, Any]:
    """The recipe's data, model and callbacks, in that order, after device and seed are set; with what the parameters
    add to them."""
    import keras

    notes = equipping.Notes(job)
    scope = equipping.set_device(parameters, notes, grow=job.log().settings.memory_growth)
    if together is not None:
        together.connect()
    loaded = recipe.load(parameters.recipe)
    params = parameters.for_recipe()
    keras.utils.set_random_seed(parameters.seed)
    data = loaded.load_data(params)
    loaded.check_data(data)
    with scope():
        model = loaded.build_model(params)
    loaded.check_model(model)
    callbacks = loaded.callbacks(params) if loaded.callbacks is not None else []
    train, validation = data
    call: dict[str, Any] = {"epochs": parameters.epochs, "verbose": 0, **_training(train, parameters)}
    if validation is not None:
        call.update(validation_data=validation)
    with scope():
        treated = equipping.treat(model, call, parameters, notes)
    call["callbacks"] = [*callbacks, *treated.callbacks]
    if together is not None:
        together.attach(treated.model)
    identity: dict[str, Any] = {
        "recipe": loaded.name,
        "seed": parameters.seed,
        "batch_size": parameters.batch_size,
        "learning_rate": parameters.learning_rate,
        **treated.identity,
    }
    if loaded.fingerprint is not None:
        identity["fingerprint"] = loaded.fingerprint(params)
    return {"model": treated.model, "call": call, "identity": identity}


def _training(data: Any, parameters: Parameters) -> dict[str, Any]:
    """What `fit` is called with. Arrays come in another order in each epoch, where they can be chosen from."""
    from mlflow_resilience.training import reshuffling

    if not isinstance(data, tuple):
        return {"x": data, "shuffle": False}
    x, y, *weight = data
    call = {"x": x, "y": y, "sample_weight": weight[0] if weight else None, "batch_size": parameters.batch_size}
    each_epoch = reshuffling.EachEpoch(parameters.seed) if reshuffling.can_be_chosen_from(data) else True
    return {**call, "shuffle": each_epoch}


def _end_before_training(job: Job, policy: Policy, error: Exception) -> int:
    """Data or model could not be made: judged as any other fault; what may help is a new process."""
    decision = _judge(job, policy, error)
    _show(error)
    return NEW_PROCESS if decision.verdict == "continue" else FAILED


def _judge(job: Job, policy: Policy, error: Exception) -> Decision:
    judge = Judge(job.journal, policy, known(policy), job.log())
    return judge.judge(describe(error, phase="start"), Capabilities(new_process=True, checkpoint=False))


def _show(error: BaseException) -> None:
    with contextlib.suppress(BrokenPipeError):
        traceback.print_exception(error)


if __name__ == "__main__":
    sys.exit(main())
