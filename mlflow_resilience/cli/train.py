"""``mlflow-resilience train``: train a recipe, under supervision."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import click

from mlflow_resilience import recipe
from mlflow_resilience.cli.naming import job_to_resume
from mlflow_resilience.cli.supervision import F, Options, options, package_path, supervise, supervised
from mlflow_resilience.errors import UsageError
from mlflow_resilience.notify import arm
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.spool.folder import JobFolder

WORKER = [sys.executable, "-m", "mlflow_resilience.worker"]
RAY_WORKER = [sys.executable, "-m", "mlflow_resilience.ray.driver"]
SPARE = [sys.executable, "-m", "mlflow_resilience.spare"]

_DEFAULTS = vars(Parameters())


def shown(value: Any) -> str:
    """A parameter's value as it is written on a command line."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _parameter(name: str, text: str) -> Callable[[F], F]:
    default = _DEFAULTS[name]
    return click.option(f"--{name.replace('_', '-')}", help=f"{text}  [default: {shown(default)}]")


@click.command(name="train")
@click.argument("recipe", required=False)
@_parameter("epochs", "How often to go through the data.")
@_parameter("batch_size", "Records an optimiser step.")
@_parameter("learning_rate", "The optimiser's.")
@_parameter("seed", "Of all that is random.")
@_parameter("resume", "auto, never, or the id of the run to go on from.")
@_parameter("recover", "false: log a fault, and fail as plain Keras would.")
@_parameter("max_attempts", "So many may fail.")
@_parameter("policy", "default, strict (nothing that changes the result) or patient (50 attempts, long waits).")
@_parameter("max_lost_time", "So many seconds may be lost to faults: none, or a number.")
@_parameter("checkpoint_every", "auto, or e.g. 50steps, 1epoch, 30s.")
@_parameter("keep", "How many checkpoints, or e.g. last=3,best=1,every=10.")
@_parameter("fault", "Faults on purpose: KIND@STEP[xTIMES][,...].")
@_parameter("warm_spare", "true: keep a process ready that goes on at once when the one that trains is lost.")
@_parameter("replay", "So much is kept of failed steps, for `mlflow-resilience replay`: none, or e.g. 64MB.")
@_parameter(
    "schedule", "Of the learning rate: warmup:100, cosine[:LENGTH], exponential:0.9:1epoch, cyclic:500[:2], floor:0.01."
)
@_parameter("plateau", "Lower the learning rate when a figure gets no better: val_loss:3[,factor:0.5,least:1e-6].")
@_parameter("early_stopping", "End when a figure gets no better: val_loss:5[,restore,min_delta:0.001,mode:max].")
@_parameter("clip", "Clip gradients: norm:1.0, value:0.5 or global_norm:1.0.")
@_parameter("regularise", "Added to the model: l1:1e-5, l2:1e-4, dropout:0.3, batchnorm.")
@_parameter("augment", "Of pictures while training: flip[:both], rotate:0.1, zoom:0.1, shift:0.1, noise:0.05.")
@_parameter("precision", "none, mixed_bfloat16 or mixed_float16.")
@_parameter("device", "memory_growth, memory_limit:4GB, threads:4[:2], deterministic, xla.")
@_parameter("devices", "Each with its part of every batch: auto for all GPUs, or their number.")
@_parameter("diagnostics", "Look at gradients, weights and the curve every so many steps: off, or e.g. 50.")
@_parameter("engine", "local: this process's machine; ray: num_workers processes that Ray starts.")
@_parameter("num_workers", "So many processes, each with its part of every batch (engine=ray).")
@_parameter("compress", "Of the trained model make: prune:0.5[:EPOCHS], int8, litert, qat; measured in one table.")
@_parameter("notify", "A command or a URL that is told of stops, preemptions and changes of the result.")
@options
def command(**given: Any) -> int:
    """Train RECIPE: a Python file or a module with build_model(params) and load_data(params)."""
    opts = Options.taken_from(given)
    told = {name: text for name, text in given.items() if text is not None}
    parameters = Parameters.from_text(told)
    recipe.check(parameters.recipe)
    parameters = replace(parameters, resume=job_to_resume(parameters.resume))
    told |= {"resume": parameters.resume} if "resume" in told else {}
    written = {name: text for name, text in told.items() if name not in ("notify", "max_attempts")}
    job = {"kind_of_job": "recipe", "params": {**as_text(parameters), **written}, "config": parameters.to_dict()}
    worker = _worker(parameters)
    if supervised():
        return _join(job, parameters, worker)
    spare = SPARE if parameters.warm_spare else ()
    return supervise(worker, opts, parameters.rules(), job=job, environ=package_path(), spare=spare)


def _worker(parameters: Parameters) -> list[str]:
    if parameters.engine == "local":
        return WORKER
    if importlib.util.find_spec("ray") is None:
        raise UsageError("engine=ray needs Ray: pip install 'mlflow-resilience[ray]'")
    return RAY_WORKER


def _join(job: Mapping[str, Any], parameters: Parameters, worker: list[str]) -> NoReturn:
    """Become the worker of the job that supervises us already (`run -- mlflow-resilience train`, or the backend)."""
    folder = JobFolder.open(os.environ["MLFLOW_RESILIENCE_JOB"])
    with contextlib.closing(folder.open_journal()) as journal:
        journal.append("job", durable=True, **job)
    arm(folder, parameters.rules().notify)
    os.execve(worker[0], worker, {**os.environ, **package_path()})


def as_text(parameters: Parameters) -> dict[str, str]:
    """The parameters as MLproject has them."""
    return {name: shown(value) for name, value in parameters.to_dict().items()}
