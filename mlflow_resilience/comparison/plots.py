"""The curves of several runs over one another."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlflow_resilience.comparison.values import ComparedRun, Points
from mlflow_resilience.plots import canvas
from mlflow_resilience.plots.series import Columns, thinned, wants_log
from mlflow_resilience.summary import one_line

#: A run is told by its colour, and by its dashes where the colours are used up.
COLOURS = ("#0073b3", "#d45f00", "#00805f", "#a3478c", "#8a6d00", "#5a4fcf", "#b3261e", "#5f6b76")
_DASHES: tuple[Any, ...] = ("solid", (0, (4, 2)), (0, (1, 1.6)))
_MOST_PANELS = 6
_POINTS = 5000  # in a whole figure
_TOO_LARGE = 1e300
_TAGS = re.compile(r"<[^>]*>")
_COLOUR = re.compile("|".join(COLOURS))


def overlay_svg(runs: Sequence[ComparedRun], *, narrow: bool = False) -> str | None:
    """An SVG element: one panel a metric, one line a run; None where no run has a curve."""
    drawn = [run for run in runs if any(run.curves.values())]
    if not drawn:
        return None
    keys, more = _keys(drawn)
    with canvas.styled():
        figure = _figure(drawn, keys, more, 3.75 if narrow else 9.2)
        text = _text(drawn, keys)
        return _with_variables(canvas.svg(figure, "overlay-narrow" if narrow else "overlay", text))


def _keys(runs: Sequence[ComparedRun]) -> tuple[list[str], int]:
    """The metrics that most runs have, validation and loss first; and how many are left out."""
    counted = Counter(key for run in runs for key, points in run.curves.items() if points)
    ordered = sorted(counted, key=lambda key: (-counted[key], not key.startswith("val_"), "loss" not in key, key))
    return ordered[:_MOST_PANELS], max(0, len(ordered) - _MOST_PANELS)


def _figure(runs: Sequence[ComparedRun], keys: Sequence[str], more: int, width: float) -> Figure:
    wide = width > 6
    columns = min(len(runs), 3) if wide else 1
    top = 0.3 + 0.19 * math.ceil(len(runs) / columns)
    heights = [1.75 if wide else 1.45] * len(keys)
    figure, axes = canvas.stack(width, heights, top=top, left=0.6 if wide else 0.46)
    for ax, key in zip(axes, keys, strict=True):
        _draw(ax, key, runs, max(60, _POINTS // (len(keys) * len(runs))))
    bottom = axes[-1]
    bottom.xaxis.set_major_locator(MaxNLocator(6 if wide else 4, integer=True))
    bottom.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    note = f"step (and {more} more metrics in MLflow)" if more else "step"
    bottom.set_xlabel(note, color=canvas.MUTED, fontsize=8.5)
    length = 34 if wide else 44
    entries = [Line2D([], [], label=one_line(run.label, length), **_look(place)) for place, run in enumerate(runs)]
    canvas.legend(figure, entries, columns)
    return figure


def _draw(ax: Axes, key: str, runs: Sequence[ComparedRun], limit: int) -> None:
    lines = [_columns(run.curves.get(key, [])) for run in runs]
    if wants_log(values for _, values in lines):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for place, (run, (steps, values)) in enumerate(zip(runs, lines, strict=True)):
        shown = ~np.isnan(values)
        few: dict[str, Any] = {"marker": "o", "markersize": 3.0} if 0 < shown.sum() <= 30 else {}
        width = 1.5 + 2.5 * (len(runs) - 1 - place) / len(runs)  # equal curves are seen below one another
        ax.plot(*thinned(steps, values, limit), **(_look(place) | {"linewidth": width}), **few)
        if shown.any() and not run.finished:  # where it broke off
            end = np.flatnonzero(shown)[-1]
            ax.plot(steps[end], values[end], "x", color=_look(place)["color"], markersize=7, markeredgewidth=2)
    canvas.title(ax, key)


def _look(place: int) -> dict[str, Any]:
    dashes = _DASHES[place // len(COLOURS) % len(_DASHES)]
    return {"color": COLOURS[place % len(COLOURS)], "linewidth": 1.6, "linestyle": dashes}


def _columns(points: Points) -> Columns:
    steps = np.array([step for step, _ in points], dtype=np.float64)
    values = np.array([value for _, value in points], dtype=np.float64)
    values[~(np.abs(values) < _TOO_LARGE)] = np.nan
    return steps, values


def _with_variables(svg: str) -> str:
    """The runs' colours as variables too (``--run-0`` and so on), in tags alone, never in a text."""

    def coloured(colour: re.Match[str]) -> str:
        return f"var(--run-{COLOURS.index(colour.group())}, {colour.group()})"

    def adapted(tag: re.Match[str]) -> str:
        return tag.group() if "aria-label" in tag.group() else _COLOUR.sub(coloured, tag.group())

    return _TAGS.sub(adapted, svg)


def _text(runs: Sequence[ComparedRun], keys: Sequence[str]) -> str:
    told = []
    for key in keys:
        ends = {run.label: run.curves[key][-1] for run in runs if run.curves.get(key)}
        told.append(f"{key}: " + "; ".join(f"{name} ends at {value:.4g}" for name, (_, value) in ends.items()))
    return f"Curves of {len(runs)} runs over steps. " + ". ".join(told) + "."
