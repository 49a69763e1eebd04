"""The matrix as a figure: a word and a colour for each cell."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from mlflow_resilience.drill.results import Result
from mlflow_resilience.drill.scorecard import SHORT, Scorecard
from mlflow_resilience.drill.verdict import WORDS
from mlflow_resilience.plots import canvas

#: Background and ink of each verdict; the word is there too, for whoever sees no colours.
_LOOK = {
    "IDENTICAL": ("#cfe8dc", "#0b4a34"),
    "STOPPED_RIGHTLY": ("#d7e6f4", "#123f66"),
    "CHANGED": ("#fbe9c4", "#5c4300"),
    "LOST_WORK": ("#f8d3b4", "#6b2f00"),
    "SILENT_DIVERGENCE": ("#b3001b", "#ffffff"),
    "HARD_FAIL": ("#5b0f4d", "#ffffff"),
}
_WIDTH, _HEIGHT = 1.0, 0.27  # inches of a cell
_LEFT, _TOP, _BOTTOM = 1.5, 0.75, 0.1
_MOST_BESIDE = 60


def svg(card: Scorecard) -> str:
    """The figure as an SVG element with its text alternative."""
    with canvas.styled():
        return canvas.svg(_figure(card), "drill", f"Drill of {card.recipe}. {card.headline}.")


def png(card: Scorecard) -> bytes:
    """The figure as a PNG on white."""
    with canvas.styled():
        return canvas.png(_figure(card))


def _figure(card: Scorecard) -> Figure:
    phases, kinds, found = card.matrix()
    beside = list(card.beside())[:_MOST_BESIDE]
    columns, rows = max(len(phases), 5 if beside else 2), len(kinds) + len(beside)
    width, height = _LEFT + columns * _WIDTH + 0.1, _TOP + max(rows, 1) * _HEIGHT + _BOTTOM
    figure = Figure(figsize=(width, height), facecolor="white")
    box = (_LEFT / width, _BOTTOM / height, columns * _WIDTH / width, (height - _TOP - _BOTTOM) / height)
    ax = figure.add_axes(box, facecolor="none")
    _frame(ax, columns, max(rows, 1))
    for row, kind in enumerate(kinds):
        ax.text(-0.06, row + 0.5, kind, ha="right", va="center", color=canvas.INK)
        for column, phase in enumerate(phases):
            if (kind, phase) in found:
                _draw(ax, column, row, found[kind, phase])
    for column, phase in enumerate(phases):
        ax.text(column + 0.5, -0.2, phase.replace("_", " "), ha="center", va="bottom", fontsize=7.5, color=canvas.MUTED)
    _beside(ax, beside, len(kinds))
    words = [word for word in WORDS if card.counts[word]]
    patches = [Patch(facecolor=_LOOK[word][0], label=f"{SHORT[word]} ({card.counts[word]})") for word in words]
    canvas.legend(figure, patches, min(len(patches), int(width // 1.3)) or 1)
    return figure


def _frame(ax: Axes, columns: int, rows: int) -> None:
    ax.set_xlim(0, columns)
    ax.set_ylim(rows, 0)
    ax.grid(False)
    ax.tick_params(length=0, labelbottom=False, labelleft=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _draw(ax: Axes, column: int, row: int, result: Result) -> None:
    back, ink = _LOOK[result.verdict.word]
    ax.add_patch(Rectangle((column + 0.02, row + 0.05), 0.96, 0.9, facecolor=back, edgecolor="none"))
    word = SHORT[result.verdict.word]
    ax.text(column + 0.5, row + 0.5, word, ha="center", va="center", fontsize=7.5, color=ink)


def _beside(ax: Axes, results: Sequence[Result], first: int) -> None:
    """A row each: the verdict, and what struck."""
    for row, result in enumerate(results, first):
        _draw(ax, 0, row, result)
        name = result.cell.name if len(result.cell.name) < 60 else f"{result.cell.name[:58]} …"
        ax.text(1.06, row + 0.5, name, ha="left", va="center", fontsize=7.5, color=canvas.INK)
