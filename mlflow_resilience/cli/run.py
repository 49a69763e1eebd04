"""``mlflow-resilience run``: any command, under supervision."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from mlflow_resilience.cli.supervision import Options, options, package_path, supervise
from mlflow_resilience.core.policy import Policy


@click.command(name="run", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--max-attempts", type=click.IntRange(min=1), default=10, show_default=True, help="So many may fail.")
@click.option("--no-recover", "recover", flag_value=False, type=bool, default=True, help="Only log what goes wrong.")
@options
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def command(max_attempts: int, recover: bool, program: tuple[str, ...], **given: Any) -> int:
    """Run a command, such as `mlflow-resilience run -- python train.py`, and start it again when it dies."""
    opts = Options.taken_from(given)
    return supervise(
        program,
        opts,
        Policy(recover=recover, max_attempts=max_attempts),
        job={"kind_of_job": "command", "command": list(program)},
        environ=_with_our_fit(),
        opens_attempts=True,
    )


def _with_our_fit() -> dict[str, str]:
    """An environment in which every `fit` of a Python script is made resilient."""
    environ = package_path()
    before = environ.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
    startup = str(Path(__file__).parents[1] / "startup")
    return {**environ, "PYTHONPATH": os.pathsep.join([startup, before] if before else [startup])}
