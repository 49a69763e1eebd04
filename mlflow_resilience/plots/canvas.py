"""From a drawn figure to a PNG, or to an SVG that takes its colours from the page around it."""

from __future__ import annotations

import html
import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlflow_resilience.summary import one_line

#: Colours that can be told apart with any colour vision (after Okabe and Ito). In an SVG each is a variable
#: (``--plot-train`` and so on) with the light value as its default.
INK, MUTED, GRID, BAND = "#1b1f24", "#5b6471", "#e2e6ea", "#f1f3f6"
TRAIN, VALIDATION, STEP, REPLAYED = "#0072b2", "#d55e00", "#8fbfdd", "#9aa2ac"
FAULT, CHECKPOINT, ATTEMPT = "#b3001b", "#00795c", "#c9d8ea"
_VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    BAND: "band",
    TRAIN: "train",
    VALIDATION: "validation",
    STEP: "step",
    REPLAYED: "replayed",
    FAULT: "fault",
    CHECKPOINT: "checkpoint",
    ATTEMPT: "attempt",
}
_COLOURS = re.compile("|".join(_VARIABLES))
_TAGS = re.compile(r"<[^>]*>")
_REFERENCES = re.compile(r'(\bid="|url\(#|href="#)')

#: The user's own style sheet must not change our figures.
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mlflow-resilience",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "text.parse_math": False,  # a metric may be named "$"
    "lines.solid_capstyle": "round",
}
_lock = threading.Lock()  # matplotlib's settings belong to the whole process


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save within this, and nowhere else."""
    with _lock, matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # our font lacks it; in an SVG the page's fonts are used
        yield


def stack(width: float, heights: list[float], *, top: float, left: float) -> tuple[Figure, list[Axes]]:
    """Axes below one another with one x axis; sizes in inches, ``top`` being the room for the legend."""
    gap, bottom, right = 0.38, 0.48, 0.14
    total = top + sum(heights) + gap * (len(heights) - 1) + bottom
    figure = Figure(figsize=(width, total), facecolor="white")
    axes: list[Axes] = []
    upper = total - top
    for height in heights:
        box = (left / width, (upper - height) / total, (width - left - right) / width, height / total)
        axes.append(figure.add_axes(box, facecolor="none", sharex=axes[0] if axes else None))
        upper -= height + gap
    for ax in axes:
        ax.tick_params(length=0, labelbottom=ax is axes[-1])
        ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    return figure, axes


def verticals(ax: Axes, positions: list[float], height: float, **look: Any) -> None:
    """Lines from the bottom of the axes upwards, as one path: a page with hundreds of them stays small."""
    steps = [each for position in positions for each in (position, position, np.nan)]
    ax.plot(steps, [0.0, height, np.nan] * len(positions), transform=ax.get_xaxis_transform(), **look)


def title(ax: Axes, text: str, right: str = "") -> None:
    """The panel's name on the left, what to know of it on the right."""
    ax.set_title(one_line(text, 48), loc="left", fontsize=9.5, fontweight="bold", color=INK)
    ax.set_title(right, loc="right", fontsize=8, color=MUTED)


def legend(figure: Figure, handles: list[Any], columns: int) -> None:
    """One legend for the whole figure, at its top."""
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=8,
        labelcolor=INK,
        handlelength=1.8,
        columnspacing=1.2,
    )


def png(figure: Figure) -> bytes:
    """The figure as a PNG on white."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure, name: str, text: str) -> str:
    """The figure as an inline SVG element, with ``text`` as its text alternative. ``name`` keeps its ids apart from
    those of other figures on the page."""
    FigureCanvasSVG(figure)
    buffer = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    drawn = buffer.getvalue()
    drawn = _TAGS.sub(lambda tag: _adapted(tag.group(), name), drawn[drawn.index("<svg") :])
    box = re.search(r'viewBox="[\d. ]+"', drawn)
    inside = drawn[drawn.index("</defs>") + len("</defs>") :]  # without a style that would reach the whole page
    look = 'style="stroke-linejoin: round; stroke-linecap: butt" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {look} {box.group() if box else ""} class="figure" role="img" '
        f'aria-label="{html.escape(one_line(text, 4000))}">{inside}'
    )


def _adapted(tag: str, name: str) -> str:
    """Colours as variables, ids with the figure's name before them. Only tags are changed, never a text."""
    tag = _COLOURS.sub(lambda match: f"var(--plot-{_VARIABLES[match.group()]}, {match.group()})", tag)
    return _REFERENCES.sub(rf"\g<1>{name}-", tag)
