"""The stitched training curves of a job."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlflow_resilience.plots import canvas
from mlflow_resilience.plots.marks import Marks, handles
from mlflow_resilience.plots.series import Columns, Panel, columns, panels, spread, thinned, wants_log, words
from mlflow_resilience.spool.curve import Series
from mlflow_resilience.spool.record import JobRecord

_MOST_PANELS = 8
_POINTS = 6000  # in a whole figure: more cannot be seen, and only make the page heavy


def training_curves(record: JobRecord) -> bytes:
    """A PNG: one panel a metric, training and validation together, each step once; above them the attempts with
    their faults. Steps that were done again are faint."""
    with canvas.styled():
        return canvas.png(_figure(record, 9.2, _POINTS * 2))


def training_curves_svg(record: JobRecord, *, narrow: bool = False) -> str:
    """The same as an SVG element; ``narrow`` for a page 400 pixels wide."""
    with canvas.styled():
        figure = _figure(record, 3.75 if narrow else 9.2, _POINTS // 2 if narrow else _POINTS)
        return canvas.svg(figure, "curves-narrow" if narrow else "curves", _text(record))


def _figure(record: JobRecord, width: float, points: int) -> Figure:
    curve = _curve(record)
    shown, more = panels(curve, _MOST_PANELS)
    marks = Marks.of(record)
    strip = min(0.2 * max(1, len(record.attempts)) + 0.1, 2.2)
    wide = width > 6
    tall = 1.75 if wide else 1.45
    heights = [strip, *(tall if len(panel.keys) > 1 else tall * 0.7 for panel in shown)]
    figure, axes = canvas.stack(width, heights, top=0.52 if wide else 0.92, left=0.6 if wide else 0.46)
    axes[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: str(int(value))))
    marks.lanes(axes[0], strip)
    marks.entries.add("attempt")
    canvas.title(axes[0], "attempts" if record.attempts else "no attempt has begun")
    lines = max(1, sum(len(panel.keys) for panel in shown))
    for ax, panel in zip(axes[1:], shown, strict=True):
        marks.put_on(ax)
        _draw(ax, panel, curve, marks, max(60, points // lines))
    marks.limits(axes[0])
    _finish(figure, axes, marks, shown, more)
    return figure


def _curve(record: JobRecord) -> dict[str, Series]:
    """The stitched curve, with an empty one for a metric whose points so far are all to be done again."""
    seen = {key: Series() for attempt in record.attempts for key, series in attempt.points.items() if len(series)}
    return seen | {key: series for key, series in record.curve.items() if len(series)}


def _draw(ax: Axes, panel: Panel, curve: dict[str, Series], marks: Marks, limit: int) -> None:
    drawn = {role: columns(curve[key]) for role, key in panel.keys.items()}
    if wants_log(values for _, values in drawn.values()):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    again = [thinned(*marks.replayed(key), limit // 2) for key in panel.keys.values()]
    for steps, values in again:  # mostly the same as the curve, so it is drawn as a halo behind it
        ax.plot(steps, values, color=canvas.REPLAYED, linewidth=4.5, alpha=0.5, zorder=2)
    for role, (steps, values) in drawn.items():
        few = len(steps) == 1 or (len(steps) <= 60 and role != "step")
        ax.plot(*thinned(steps, values, limit), **_look(role, with_markers=few))
        if len(steps):
            marks.entries.add("each step" if role == "step" else role)
    _mark_gaps(ax, [*again, *drawn.values()], marks)
    canvas.title(ax, panel.name, _last(drawn))


def _mark_gaps(ax: Axes, lines: list[Columns], marks: Marks) -> None:
    """A cross at the top wherever a value was NaN or infinite."""
    bad = spread(step for steps, values in lines for step in steps[np.isnan(values) & ~np.isnan(steps)])
    if bad:
        top = ax.get_xaxis_transform()
        ax.plot(bad, [0.94] * len(bad), "x", color=canvas.FAULT, markersize=4, transform=top, zorder=5)
        marks.entries.add("not a number")


def _look(role: str, *, with_markers: bool) -> dict[str, Any]:
    looks: dict[str, dict[str, Any]] = {
        "train": {"color": canvas.TRAIN, "linewidth": 1.7, "marker": "o", "zorder": 4},
        "validation": {
            "color": canvas.VALIDATION,
            "linewidth": 1.7,
            "linestyle": (0, (4, 2)),
            "marker": "s",
            "zorder": 4,
        },
        "step": {"color": canvas.STEP, "linewidth": 0.9, "marker": ".", "zorder": 3},
    }
    return looks[role] | {"markersize": 3.6} | ({} if with_markers else {"marker": ""})


def _last(drawn: dict[str, Columns]) -> str:
    ends = {role: values[~np.isnan(values)] for role, (_, values) in drawn.items()}
    named = (
        {"train": "last", "validation": "validation"}
        if "train" in ends
        else {"validation": "validation", "step": "last"}
    )
    return " · ".join(f"{word} {ends[role][-1]:.4g}" for role, word in named.items() if len(ends.get(role, ())))


def _finish(figure: Figure, axes: list[Axes], marks: Marks, shown: list[Panel], more: int) -> None:
    bottom = axes[-1]
    bottom.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    bottom.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    note = f"step (and {more} more metrics in MLflow)" if more else "step"
    bottom.set_xlabel(note if shown else "step (no metric was recorded)", color=canvas.MUTED, fontsize=8.5)
    canvas.legend(figure, handles(marks.entries), columns=9 if figure.get_figwidth() > 6 else 3)


def _text(record: JobRecord) -> str:
    curve = _curve(record)
    shown, _ = panels(curve, _MOST_PANELS)
    told = [words(panel.name, {role: curve[key] for role, key in panel.keys.items()}) for panel in shown]
    faults = [f"{fault.failure_class} at step {step}" for step, fault in Marks.of(record).faults]
    parts = [f"Training curves to step {record.last_step}, {len(record.attempts)} attempts"]
    parts += [f"Faults: {', '.join(faults[:12])}{' and more' if len(faults) > 12 else ''}"] if faults else []
    return ". ".join([*parts, *(told or ["No metric was recorded"])]) + "."
