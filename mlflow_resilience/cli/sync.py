"""``mlflow-resilience sync``: send to MLflow what earlier jobs could not."""

from __future__ import annotations

import click

SECONDS = click.FloatRange(min=0)


@click.command(name="sync")
@click.option("--tracking-uri", help="Send it there, not where each job was meant to go.")
@click.option("--patience", type=SECONDS, default=60.0, show_default=True, help="Seconds to try, for each job.")
def command(tracking_uri: str | None, patience: float) -> int:
    """Send to MLflow what waits in this folder's jobs."""
    from mlflow_resilience.spool.folder import home
    from mlflow_resilience.tracking import sync

    sent = sync(home(), tracking_uri=tracking_uri, patience=patience)
    for each in sent:
        click.echo(f"{each.job_id}: {'all is sent' if each.done else 'not all is sent'} {each.message}".rstrip())
    if not sent:
        click.echo("nothing waits")
    return 0 if all(each.done for each in sent) else 1
