"""A drill on the terminal: how far it is, and its scorecard."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlflow_resilience.cli.side_by_side import plain
from mlflow_resilience.comparison.table import Table
from mlflow_resilience.drill.scorecard import SHORT, Scorecard
from mlflow_resilience.drill.settings import Selection, Settings, folder_of
from mlflow_resilience.summary import count, duration, one_line

if TYPE_CHECKING:
    from mlflow_resilience.drill.results import Result

_COLOURS = {
    "IDENTICAL": "green",
    "STOPPED_RIGHTLY": "green",
    "CHANGED": "yellow",
    "LOST_WORK": "yellow",
    "SILENT_DIVERGENCE": "bold red",
    "HARD_FAIL": "bold red",
}


class Progress:
    """A line for each cell that has ended; on a terminal also what runs now, and about how long it will all take.
    ``status`` is rich's, or None."""

    def __init__(self, status: Any = None) -> None:
        self._status = status
        self._lock = threading.Lock()
        self._running: list[str] = []
        self._total = self._done = self._before = 0
        self._since = time.monotonic()

    def begins(self, total: int, done: int) -> None:
        self._total, self._done, self._before, self._since = total, done, done, time.monotonic()
        self._running.clear()
        more = f", {done} of them done already (--fresh begins anew)" if done else ""
        click.echo(f"{count(total, 'cell')}{more}")

    def started(self, name: str) -> None:
        with self._lock:
            self._running.append(name)
            self._tell()

    def ended(self, result: Result) -> None:
        with self._lock:
            self._done += 1
            if result.cell.name in self._running:
                self._running.remove(result.cell.name)
            place = f"[{self._done}/{self._total}]"
            told = f"{place} {result.cell.name}: {result.verdict.word} ({duration(result.seconds)})"
            click.echo(told + (f": {one_line(result.verdict.text, 300)}" if result.verdict.bad else ""))
            self._tell()

    def _tell(self) -> None:
        if self._status is not None:
            self._status.update(f"{', '.join(self._running) or 'ending'}{self._left()}")

    def _left(self) -> str:
        fresh = self._done - self._before
        if not fresh:
            return ""
        return f" · about {duration((time.monotonic() - self._since) / fresh * (self._total - self._done))} left"


@contextmanager
def progress(settings: Settings, selection: Selection, home: Path) -> Iterator[Progress]:
    """Tell what is drilled, and then how far it is."""
    click.echo(f"drill of {settings.recipe}: {one_line(selection, 120)}; {settings.epochs} epochs a run")
    click.echo(f"results: {folder_of(home, settings)}")
    if not sys.stdout.isatty():
        yield Progress()
        return
    from rich.console import Console

    with Console().status("starting") as status:
        yield Progress(status)


def show(card: Scorecard, see: str) -> None:
    """The matrix, what is worth a sentence, and the sum."""
    phases, kinds, found = card.matrix()
    if kinds:
        columns = ["", *(phase.replace("_", " ") for phase in phases)]
        rows = [[kind, *(_word(found.get((kind, phase))) for phase in phases)] for kind in kinds]
        table = Table(columns, rows, frozenset(), [])
        if sys.stdout.isatty():
            _rich(table)
        else:
            click.echo("\n".join(plain(table)))
    told = card.worth_telling()
    for each in [*(each for each in card.beside() if each not in told), *told]:
        kept = f" (see {each.kept})" if each.kept else ""
        click.echo(f"{each.cell.name}: {each.verdict.word}: {one_line(each.verdict.text, 600)}{kept}")
    click.echo(card.headline)
    if see:
        click.echo(f"see: {see}")


def _word(result: Result | None) -> str:
    return SHORT[result.verdict.word] if result is not None else ""


def _rich(table: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    colours = {SHORT[word]: colour for word, colour in _COLOURS.items()}
    drawn = Drawn(header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in table.columns:
        drawn.add_column(Text(name), overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
    Console().print(drawn)
