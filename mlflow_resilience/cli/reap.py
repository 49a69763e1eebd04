"""``mlflow-resilience reap``: close the runs that dead jobs left RUNNING."""

from __future__ import annotations

import click


@click.command(name="reap")
@click.option("--tracking-uri", help="Whose runs; default: MLFLOW_TRACKING_URI, or the store in this folder.")
@click.option("--unowned", is_flag=True, help="Those too that MLflow made and that failed before a job owned them.")
@click.option("--older-than", type=click.FloatRange(min=0), help="With --unowned: hours since they began.")
def command(tracking_uri: str | None, unowned: bool, older_than: float | None) -> None:
    """Give the runs of dead jobs their true end, outcome and last known fault."""
    from mlflow_resilience.errors import UsageError
    from mlflow_resilience.spool.folder import home
    from mlflow_resilience.tracking import reap

    if unowned != (older_than is not None):
        raise UsageError("--unowned and --older-than HOURS go together")
    seconds = None if older_than is None else older_than * 3600
    closed = reap(home(), tracking_uri, unowned=unowned, older_than=seconds)
    for each in closed:
        click.echo(f"{each.run_id}: {each.why}")
    if not closed:
        click.echo("nothing to close")
