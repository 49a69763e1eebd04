"""``mlflow-resilience compare``: runs side by side, on the terminal and as a page in MLflow."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from mlflow_resilience.cli.output_file import OutputFile
from mlflow_resilience.cli.side_by_side import show
from mlflow_resilience.errors import UsageError

OUTCOMES = ("clean", "recovered", "failed", "preempted", "running")


@click.command(name="compare")
@click.argument("run", nargs=-1)
@click.option("--runs", "more", default="", hidden=True, help="The same in one word, as an MLproject gives them.")
@click.option("--experiment", default="", help="All runs of the experiment of this name, the newest 200.")
@click.option("--outcome", default="", help="With --experiment: only these, e.g. failed,recovered.")
@click.option("--tracking-uri", help="Where the runs are; default: MLFLOW_TRACKING_URI, or the store in this folder.")
@click.option("-o", "--output", type=OutputFile(), help="Write the page here too.")
@click.option("--no-log", "log", flag_value=False, type=bool, default=True, help="Make no run of it in MLflow.")
def command(
    run: tuple[str, ...], more: str, experiment: str, outcome: str, tracking_uri: str | None,
    output: Path | None, log: bool,
) -> None:  # fmt: skip
    """Compare RUNs, or the runs of an experiment: outcome, cost, params that differ, and whether the result is the
    same."""
    wanted = [*run, *re.split(r"[\s,]+", more.strip())]
    run_ids = [each for each in wanted if each]
    outcomes = _outcomes(outcome)
    _check(run_ids, experiment, outcomes)
    own_run = os.environ.get("MLFLOW_RUN_ID") or None
    from mlflow_resilience.cli.store import client_of

    with client_of(tracking_uri) as (client, uri):
        from mlflow_resilience.cli.comparing import compare

        made = compare(client, uri, run_ids, experiment, outcomes, own_run=own_run if log else None, log=log)
    if output is not None:
        output.write_text(made.page, encoding="utf-8")
    show(made)
    if output is not None:
        click.echo(f"written to {output}")


def _check(run_ids: list[str], experiment: str, outcomes: list[str]) -> None:
    if experiment and run_ids:
        raise UsageError("runs and --experiment do not go together")
    if outcomes and not experiment:
        raise UsageError("--outcome goes with --experiment NAME")
    if not experiment and len(set(run_ids)) < 2:
        raise UsageError("two different runs are needed, or --experiment NAME")


def _outcomes(text: str) -> list[str]:
    outcomes = [each.strip() for each in text.split(",") if each.strip()]
    for each in outcomes:
        if each not in OUTCOMES:
            raise UsageError(f"outcome={each}: one of {', '.join(OUTCOMES)} is needed")
    return list(dict.fromkeys(outcomes))
