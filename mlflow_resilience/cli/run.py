"""``mlflow-resilience run``: any command, under supervision."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from mlflow_resilience.cli.naming import job_to_resume
from mlflow_resilience.cli.supervision import Options, options, package_path, supervise
from mlflow_resilience.cli.train import shown
from mlflow_resilience.parameters import Parameters


@click.command(name="run", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--policy", default="default", show_default=True, help="default, strict or patient.")
@click.option("--max-attempts", default="auto", help="So many may fail.  [default: 10, or 50 for patient]")
@click.option("--max-lost-time", default="none", show_default=True, help="So many seconds may be lost to faults.")
@click.option("--no-recover", "recover", flag_value=False, type=bool, default=True, help="Only log what goes wrong.")
@click.option("--resume", default="auto", show_default=True, help="auto, never, or the id of the run to go on from.")
@click.option("--checkpoint-every", default="auto", show_default=True, help="auto, or e.g. 50steps, 1epoch, 30s.")
@click.option("--keep", default="3", show_default=True, help="How many checkpoints, or e.g. last=3,best=1,every=10.")
@click.option("--fault", default="none", show_default=True, help="Faults on purpose: KIND@STEP[xTIMES][,...].")
@click.option("--replay", default="none", show_default=True, help="So much is kept of failed steps: none, or 64MB.")
@click.option("--notify", default="none", show_default=True, help="A command or a URL to tell of stops and the like.")
@options
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def command(program: tuple[str, ...], **given: Any) -> int:
    """Run a command, such as `mlflow-resilience run -- python train.py`, and start it again when it dies.

    In a Python script that trains with Keras, every `fit` goes on where it was.
    """
    opts = Options.taken_from(given)
    told = Parameters.from_text({name: shown(value) for name, value in given.items()})
    told = replace(told, resume=job_to_resume(told.resume))
    config = {name: getattr(told, name) for name in given if name != "notify"}
    return supervise(
        program,
        opts,
        told.rules(),
        job={
            "kind_of_job": "command",
            "command": list(program),
            "config": config,
            "params": {name: shown(value) for name, value in config.items()},
        },
        environ=_with_our_fit(),
        opens_attempts=True,
    )


def _with_our_fit() -> dict[str, str]:
    """An environment in which every `fit` of a Python script is made resilient."""
    environ = package_path()
    before = environ.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
    startup = str(Path(__file__).parents[1] / "startup")
    return {**environ, "PYTHONPATH": os.pathsep.join([startup, before] if before else [startup])}
