"""``mlflow-resilience report``: what happened in a job, as five lines and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool.folder import JobFolder, home, jobs
from mlflow_resilience.spool.record import JobRecord


@click.command(name="report")
@click.argument("run")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="[default: report-RUN.html]")
@click.option("--tracking-uri", help="Where the run is; default: MLFLOW_TRACKING_URI, or the store in this folder.")
def command(run: str, output: Path | None, tracking_uri: str | None) -> None:
    """Write the report of RUN: the id of an MLflow run or of a job. Where the job's folder is not on this machine, it
    is made from what MLflow holds."""
    target = output or Path(f"report-{Path(run).name}.html")
    folder = None if tracking_uri else _local(run)
    if folder is None:
        record, state = _retold(run, tracking_uri)
    else:
        record, state = JobRecord.read(folder.journal), folder.read_sender_state()
    from mlflow_resilience.cli.last_words import summary
    from mlflow_resilience.report import render

    for line in summary(record, state):
        click.echo(line)
    target.write_text(render(record), encoding="utf-8")
    click.echo(f"written to {target}")


def _local(run: str) -> JobFolder | None:
    """The job's folder, if the job was done here."""
    for folder in jobs(home()):
        if run in (folder.job_id, folder.read_sender_state().get("run_id")):
            return folder
    return None


def _retold(run_id: str, tracking_uri: str | None) -> tuple[JobRecord, dict[str, Any]]:
    """The record from MLflow, and what opens the run."""
    from mlflow_resilience.cli.store import client_of
    from mlflow_resilience.core.redaction import redact

    with client_of(tracking_uri) as (client, uri):
        from mlflow_resilience.tracking import retelling

        run = retelling.find(client, run_id)
        if run is None:
            raise UsageError(f"there is no job {run_id} in {home()}, and no such run in MLflow at {redact(uri)}")
        state = {"tracking_uri": redact(uri), "run_id": run.info.run_id, "experiment_id": run.info.experiment_id}
        return retelling.retell(client, run), state
