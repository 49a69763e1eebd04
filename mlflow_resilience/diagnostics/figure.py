"""The diagnostics of a training as one figure: losses, learning rate, gradients, updates and dead units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from mlflow_resilience.diagnostics.table import chosen
from mlflow_resilience.diagnostics.trace import Floats, Trace
from mlflow_resilience.diagnostics.updates import HIGH
from mlflow_resilience.diagnostics.verdict import Verdict
from mlflow_resilience.plots import canvas

_WIDTH, _POINTS = 9.2, 1000


def png(trace: Trace, found: Sequence[Verdict]) -> bytes:
    """A PNG on white: what each step did over the steps; where a verdict began is a line with its name. Layers go from
    dark (input) to light (output)."""
    with canvas.styled():
        return canvas.png(_figure(trace, found))


def _figure(trace: Trace, found: Sequence[Verdict]) -> Figure:
    dead = np.isfinite(trace.of("dead")).any()
    heights = [1.75, 0.8, 1.75, 1.75] + [0.9] * bool(dead)
    figure, axes = canvas.stack(_WIDTH, heights, top=0.75, left=0.7)
    _losses(axes[0], trace)
    _line(axes[1], trace.steps, trace.rates, color=canvas.TRAIN)
    canvas.title(axes[1], "learning rate", _last(trace.rates))
    _layers(axes[2], trace, trace.of("gradient_norm"))
    canvas.title(axes[2], "gradient norm of each layer", f"all {_last(trace.global_norms)}")
    _layers(axes[3], trace, trace.of("update_ratio"))
    for level in (1e-3, HIGH):
        axes[3].axhline(level, color=canvas.MUTED, linewidth=0.7, linestyle=(0, (4, 3)), zorder=1)
    canvas.title(axes[3], "update / weights of each layer", "0.001 is usual")
    if dead:
        _layers(axes[4], trace, trace.of("dead"), log=False)
        axes[4].set_ylim(-0.02, 1.02)
        canvas.title(axes[4], "share of dead units of each layer")
    _marks(axes, trace, found)
    axes[-1].set_xlabel("step", fontsize=8, color=canvas.MUTED)
    _legend(figure, trace, found)
    return figure


def _losses(ax: Axes, trace: Trace) -> None:
    _line(ax, trace.steps, trace.losses, color=canvas.STEP, linewidth=1.2)
    ends = _epoch_ends(trace)
    _line(ax, ends, trace.train_losses, color=canvas.TRAIN, marker="o", markersize=2.5)
    if np.isfinite(trace.val_losses).any():
        _line(ax, ends, trace.val_losses, color=canvas.VALIDATION, marker="s", markersize=2.5, linestyle=(0, (5, 1.5)))
    canvas.title(ax, "loss", _last(trace.train_losses if len(trace.train_losses) else trace.losses))


def _layers(ax: Axes, trace: Trace, values: Floats, *, log: bool = True) -> None:
    shown = chosen(len(trace.layers))
    colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, len(shown)))
    for colour, at in zip(colours, shown, strict=True):
        line = np.where(values[:, at] > 0, values[:, at], np.nan) if log else values[:, at]
        _line(ax, trace.steps, line, color=colour, linewidth=1.1)
    if log and np.isfinite(values[values > 0]).any():
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_locator(NullLocator())


def _line(ax: Axes, steps: Floats, values: Floats, **look: Any) -> None:
    every = max(1, len(steps) // _POINTS)
    finite = np.where(np.abs(values) < 1e30, values, np.nan)
    ax.plot(steps[::every], finite[::every], **{"linewidth": 1.5, **look})


def _marks(axes: Sequence[Axes], trace: Trace, found: Sequence[Verdict]) -> None:
    """Where each verdict began; names below one another, since several may begin together."""
    for row, verdict in enumerate(found):
        at = float(verdict.step) if verdict.step is not None else _begin_of(trace, verdict.epoch or 1)
        for ax in axes:
            ax.axvline(at, color=canvas.FAULT, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
        axes[0].annotate(
            verdict.symptom.replace("_", " "), (at, 0.92 - 0.13 * (row % 7)), xycoords=("data", "axes fraction"),
            xytext=(3, 0), textcoords="offset points", fontsize=7.5, color=canvas.FAULT,
        )  # fmt: skip


def _epoch_ends(trace: Trace) -> Floats:
    """The step at which each epoch ended, as the readings tell it: the last of the epoch, or in proportion."""
    if not len(trace.steps):
        return trace.epoch_numbers
    ends: Floats = np.interp(trace.epoch_numbers, *_known_ends(trace))
    return ends


def _known_ends(trace: Trace) -> tuple[Floats, Floats]:
    epochs, last = np.unique(trace.epochs[::-1], return_index=True)
    ends = trace.steps[::-1][last]
    return np.concatenate([[epochs[0] - 1], epochs]), np.concatenate([[0.0], ends])


def _begin_of(trace: Trace, epoch: int) -> float:
    return float(np.interp(epoch - 1, *_known_ends(trace))) if len(trace.steps) else float(epoch)


def _legend(figure: Figure, trace: Trace, found: Sequence[Verdict]) -> None:
    handles = [
        Line2D([], [], color=canvas.STEP, label="since the reading before"),
        Line2D([], [], color=canvas.TRAIN, marker="o", markersize=3, label="training, by epoch"),
    ]
    if np.isfinite(trace.val_losses).any():
        handles.append(Line2D([], [], color=canvas.VALIDATION, marker="s", markersize=3, label="validation"))
    names = [trace.layers[at].name for at in chosen(len(trace.layers))]
    if names:
        colours = matplotlib.colormaps["viridis"]([0.0, 0.85])
        handles.append(Line2D([], [], color=colours[0], label=names[0][-30:]))
        handles.append(Line2D([], [], color=colours[1], label=names[-1][-30:]))
    if found:
        handles.append(Line2D([], [], color=canvas.FAULT, linestyle=(0, (2, 2)), label="a verdict's beginning"))
    canvas.legend(figure, handles, 3)


def _last(values: Floats) -> str:
    known = values[np.isfinite(values)]
    return f"{known[-1]:.4g}" if len(known) else ""
