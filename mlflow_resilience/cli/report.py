"""``mlflow-resilience report``: what happened in a job, as five lines and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mlflow_resilience import undisturbed
from mlflow_resilience.cli.output_file import OutputFile
from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool import naming
from mlflow_resilience.spool.folder import home
from mlflow_resilience.spool.record import JobRecord


@click.command(name="report")
@click.argument("run")
@click.option("-o", "--output", type=OutputFile(), help="[default: report-RUN.html]")
@click.option("--tracking-uri", help="Where the run is; default: MLFLOW_TRACKING_URI, or the store in this folder.")
def command(run: str, output: Path | None, tracking_uri: str | None) -> None:
    """Write the report of RUN: the id of an MLflow run or of a job, or its beginning. Where the job's folder is not on
    this machine, it is made from what MLflow holds."""
    target = output or Path(f"report-{Path(run).name}.html")
    folder = None if tracking_uri else naming.local(home(), run)
    if folder is None:
        record, state, clean = _retold(run, tracking_uri)
    else:
        record, state = JobRecord.read(folder.journal), folder.read_sender_state()
        clean = undisturbed.in_home(home(), record)
    from mlflow_resilience.cli.last_words import summary
    from mlflow_resilience.report import render

    for line in summary(record, state, clean):
        click.echo(line)
    target.write_text(render(record, clean), encoding="utf-8")
    click.echo(f"written to {target}")


def _retold(run_id: str, tracking_uri: str | None) -> tuple[JobRecord, dict[str, Any], undisturbed.CleanRun | None]:
    """The record from MLflow, what opens the run, and the clean run to hold it against."""
    from mlflow_resilience.cli.store import client_of
    from mlflow_resilience.core.redaction import redact

    with client_of(tracking_uri) as (client, uri):
        from mlflow_resilience.tracking import clean_runs, retelling

        run = retelling.find(client, run_id)
        if run is None:
            raise UsageError(f"there is no job {run_id} in {home()}, and no such run in MLflow at {redact(uri)}")
        state = {"tracking_uri": redact(uri), "run_id": run.info.run_id, "experiment_id": run.info.experiment_id}
        record = retelling.retell(client, run)
        return record, state, clean_runs.find(client, run.info.experiment_id, record)
