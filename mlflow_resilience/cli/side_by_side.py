"""A comparison on the terminal: a table and a line for each pair; plain text where it is no terminal."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mlflow_resilience.cli.comparing import Comparison
    from mlflow_resilience.comparison.table import Table

_MOST_PAIRS = 30


def show(made: Comparison) -> None:
    """Print table, verdicts, and what opens the page."""
    from mlflow_resilience.comparison.table import table

    shown = table(made.runs)
    if not made.runs:
        click.echo("there are no runs to compare" + (f" ({made.note})" if made.note else ""))
    elif sys.stdout.isatty():
        _rich(shown)
    else:
        for line in plain(with_params(shown)):
            click.echo(line)
    for text in (shown.left_out, made.note if made.runs else ""):
        if text:
            click.echo(text)
    for pair in made.pairs[:_MOST_PAIRS]:
        click.echo(f"{pair.a.label} and {pair.b.label}: {pair.verdict.sentence}")
    if len(made.pairs) > _MOST_PAIRS:
        click.echo(f"and {len(made.pairs) - _MOST_PAIRS} more pairs, on the page")
    click.echo(f"see: {made.see}")


def with_params(shown: Table) -> Table:
    """With the params that differ as a last column."""
    if not shown.params:
        return shown
    rows = [[*row, ", ".join(told) or "-"] for row, told in zip(shown.rows, shown.params, strict=True)]
    return replace(shown, columns=[*shown.columns, "params that differ"], rows=rows)


def plain(shown: Table) -> list[str]:
    """Aligned columns, two spaces between them, one line for each run."""
    rows = [shown.columns, *shown.rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(shown.columns))]
    return [
        "  ".join(
            cell.rjust(width) if place in shown.figures else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _rich(shown: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(shown.columns):
        figure = place in shown.figures
        drawn.add_column(Text(name), justify="right" if figure else "left", overflow="fold")
    for row in shown.rows:
        drawn.add_row(*(Text(cell, style=_style(cell) if place == 1 else "") for place, cell in enumerate(row)))
    console = Console()
    console.print(drawn)
    for row, told in zip(shown.rows, shown.params, strict=False):
        console.print(Text(f"{row[0]}: {', '.join(told) or 'no params'}"))
    console.print()


def _style(outcome: str) -> str:
    word = outcome.partition(",")[0]
    return {"clean": "green", "recovered": "green", "finished": "green", "failed": "red"}.get(word, "yellow")
