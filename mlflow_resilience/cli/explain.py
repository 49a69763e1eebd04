"""``mlflow-resilience explain``: what is this error, and what would be done about it?"""

from __future__ import annotations

import json
from typing import IO

import click


@click.command(name="explain")
@click.argument("file", type=click.File(errors="replace"), default="-")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(file: IO[str], as_json: bool) -> None:
    """Explain a traceback or the tail of a log, from FILE or standard input.

    Exit code 1, and one line, where the text tells of no error.
    """
    from mlflow_resilience.explain import explain

    told = explain(file.read()).to_dict()
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False))
        return
    click.echo(f"failure class: {told['failure_class']} ({told['failure_domain']})")
    click.echo(f"root cause:    {told['root_cause'] or 'none was found in the text'}")
    click.echo(f"what is done:  {', then '.join(told['ladder'])}")
    click.echo(f"hint:          {told['hint']}")
