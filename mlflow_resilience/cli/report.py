"""``mlflow-resilience report``: what happened in a job, as five lines and as a page."""

from __future__ import annotations

from pathlib import Path

import click

from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool.folder import JobFolder, home, jobs

PAGE = "resilience/report.html"


@click.command(name="report")
@click.argument("run")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="[default: report-RUN.html]")
def command(run: str, output: Path | None) -> None:
    """Write the report of RUN: the id of an MLflow run or of a job."""
    target = output or Path(f"report-{run}.html")
    folder = _local(run)
    page = _fetched(run) if folder is None else _rendered(folder)
    target.write_text(page, encoding="utf-8")
    click.echo(f"written to {target}")


def _local(run: str) -> JobFolder | None:
    """The job's folder, if the job was done here."""
    for folder in jobs(home()):
        if run in (folder.job_id, folder.read_sender_state().get("run_id")):
            return folder
    return None


def _rendered(folder: JobFolder) -> str:
    from mlflow_resilience.cli.last_words import summary
    from mlflow_resilience.report import render
    from mlflow_resilience.spool.record import JobRecord

    record = JobRecord.read(folder.journal)
    for line in summary(record, folder.read_sender_state()):
        click.echo(line)
    return render(record)


def _fetched(run: str) -> str:
    """The page that the job itself left in MLflow."""
    from mlflow.artifacts import load_text
    from mlflow.exceptions import MlflowException

    try:
        return str(load_text(f"runs:/{run}/{PAGE}"))
    except (MlflowException, OSError) as error:
        told = str(error).splitlines()[0]
        raise UsageError(f"no job {run} in {home()}, and MLflow has no report of such a run: {told}") from None
