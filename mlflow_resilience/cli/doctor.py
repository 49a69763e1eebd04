"""``mlflow-resilience doctor``: what will go wrong with this recipe, found before it is trained."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from mlflow_resilience import recipe as recipes
from mlflow_resilience.doctor.finding import SEVERITIES, Finding
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.spool.folder import home

_WILL_FAIL = 1
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command(name="doctor")
@click.argument("recipe", required=False, default=Parameters().recipe)
@click.option("--scan", is_flag=True, help="Read every record, and name those that cannot be read.")
@click.option("--scan-all", type=bool, default=False, hidden=True, help="The same, as an MLproject gives it.")
@click.option("--batches", type=click.IntRange(min=1), default=16, show_default=True, help="So many are looked at.")
@click.option("--throughput", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="Measure whether it would wait for its data, each thing for so long.")  # fmt: skip
@click.option("--epochs", help="As `train` has it, and so the next ones.")
@click.option("--batch-size")
@click.option("--learning-rate")
@click.option("--seed")
@click.option("--keep")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    recipe: str,
    scan: bool,
    scan_all: bool,
    batches: int,
    throughput: float | None,
    as_json: bool,
    **given: str | None,
) -> int:
    """Examine RECIPE: its data against its model and loss, its arithmetic, and room for it on this machine.

    Nothing is trained. Exit codes: 0, 1 when something was found that will fail training, 2 wrong usage.
    """
    parameters = Parameters.from_text({"recipe": recipe, **{k: v for k, v in given.items() if v is not None}})
    recipes.check(recipe)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from mlflow_resilience.doctor.examination import Extent, examine

    with _progress() as tell:
        extent = Extent(batches=batches, scan=scan or scan_all, throughput=throughput, tell=tell)
        findings = examine(parameters, home=home(), tracking_uri=_store(), extent=extent)
    counts = {str(severity): sum(each.severity == severity for each in findings) for severity in SEVERITIES}
    told = {"recipe": recipe, "findings": [finding.to_dict() for finding in findings], "counts": counts}
    _log(told)
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False))
    else:
        _show(recipe, findings, counts)
    return _WILL_FAIL if counts["error"] else 0


def _show(recipe: str, findings: list[Finding], counts: dict[str, int]) -> None:
    for finding in findings:
        click.echo(f"{click.style(finding.severity, fg=_COLOURS[finding.severity])}: {finding.text}")
        if finding.remedy:
            click.echo(f"    {finding.remedy}")
    summed = ", ".join(f"{number} {severity}{'s' * (number != 1)}" for severity, number in counts.items())
    click.echo(f"{recipe}: {summed}")


@contextlib.contextmanager
def _progress() -> Iterator[Any]:
    """How far a scan is, on a terminal; nothing otherwise."""
    if not sys.stderr.isatty():
        yield lambda read, bad: None
        return
    from rich.console import Console

    with Console(stderr=True).status("looking") as status:
        yield lambda read, bad: status.update(f"{read} read, {bad} of them bad")


def _store() -> str:
    """Where a job would be logged."""
    import mlflow

    return str(mlflow.get_tracking_uri())


def _log(told: dict[str, Any]) -> None:
    """Into the run that `mlflow run` has opened for this, where it has."""
    if not os.environ.get("MLFLOW_RUN_ID"):
        return
    import mlflow

    with mlflow.start_run():
        mlflow.log_dict(told, "resilience/doctor.json")
        for severity, number in told["counts"].items():
            mlflow.set_tag(f"resilience.doctor.{severity}s", number)
