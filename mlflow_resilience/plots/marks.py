"""What is marked in every figure over steps: attempts, faults, checkpoints."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mlflow_resilience.plots import canvas
from mlflow_resilience.plots.series import Columns, columns, joined, spread
from mlflow_resilience.spool.record import AttemptRecord, FaultRecord, JobRecord
from mlflow_resilience.summary import one_line

MOST_BANDS = 100  # beyond that, shading is only a grey


@dataclass
class Marks:
    """Positions, in steps, of what the figure marks."""

    attempts: list[AttemptRecord]
    starts: list[int]  # where each attempt's part of the curve begins ...
    ends: list[int]  # ... and where the next one's begins: beyond it, its steps were done again
    faults: list[tuple[int, FaultRecord]]
    checkpoints: list[float]
    first: int = 0
    last: int = 1
    entries: set[str] = field(default_factory=set)  # what the legend has to explain

    @classmethod
    def of(cls, record: JobRecord) -> Marks:
        attempts = record.attempts
        starts = [attempt.step for attempt in attempts]
        ends = [min(starts[place + 1 :], default=attempt.last_step) for place, attempt in enumerate(attempts)]
        faults = [
            (attempt.last_step if fault.step is None else fault.step, fault)
            for attempt in attempts
            for fault in attempt.faults
        ]
        curve = [series.steps for series in record.curve.values() if len(series)]
        first = min([*starts, *(steps[0] for steps in curve)], default=0)
        last = max([record.last_step, *(steps[-1] for steps in curve), first + 1])
        saved = spread(float(each.get("step") or 0) for each in record.checkpoints)
        return cls(attempts, starts, ends, faults, saved, first, last)

    def limits(self, ax: Axes) -> None:
        pad = (self.last - self.first) * 0.012
        ax.set_xlim(self.first - pad, self.last + pad)

    def put_on(self, ax: Axes) -> None:
        """Every other attempt's part shaded, a line at each fault, a tick at each checkpoint."""
        parts = [(start, end - start) for start, end in zip(self.starts, self.ends, strict=True) if end > start]
        if len(parts) <= MOST_BANDS:
            ax.broken_barh(parts[1::2], (0, 1), transform=ax.get_xaxis_transform(), facecolor=canvas.BAND, zorder=0)
        fault_lines(ax, [step for step, fault in self.faults if not fault.in_place])
        canvas.verticals(ax, self.checkpoints, 0.06, color=canvas.CHECKPOINT, linewidth=1.6, zorder=3)
        self.entries |= {"checkpoint"} if self.checkpoints else set()

    def replayed(self, key: str) -> Columns:
        """The points of a metric that are not in the curve since their steps were done again."""
        pieces = []
        for attempt, end in zip(self.attempts[:-1], self.ends, strict=False):
            series = attempt.points.get(key)
            if series is None:
                continue
            steps, values = columns(series)
            at = bisect_right(series.steps, end)
            if at < len(steps):
                pieces.append((steps[max(0, at - 1) :], values[max(0, at - 1) :]))
        if pieces:
            self.entries.add("replayed")
        return joined(pieces)

    def lanes(self, ax: Axes, height: float) -> None:
        """A bar for each attempt, from its first to its last step, with its faults upon it."""
        lane = height / max(1, len(self.attempts))
        shortest = (self.last - self.first) * 0.002
        rows = [int(row) for row in spread(range(len(self.attempts)), 120)]
        ends = [max(self.attempts[row].last_step, self.starts[row] + shortest) for row in rows]
        thick = max(0.8, lane * 0.72 * 72)
        starts = [self.starts[row] for row in rows]
        ax.hlines(rows, starts, ends, color=canvas.ATTEMPT, linewidth=thick, capstyle="butt")
        free = -1.0  # inches from the top, down to which there are labels
        labelled: set[str] = set()
        for row, step, fault in self._placed():
            shape = "o" if fault.in_place else "X"
            face = "none" if fault.in_place else canvas.FAULT
            ax.plot(step, row, shape, markersize=6 if lane >= 0.15 else 4, markerfacecolor=face, color=canvas.FAULT,
                    markeredgewidth=1.0, clip_on=False)  # fmt: skip
            self.entries.add("handled in place" if fault.in_place else "fault")
            new = fault.failure_class not in labelled and row * lane >= free
            if not fault.in_place and (lane >= 0.15 or new):
                self._label(ax, step, row, fault.failure_class, raised=0 if lane >= 0.15 else 6)
                labelled.add(fault.failure_class)
                free = row * lane + 0.15
        ax.set_ylim(max(0, len(self.attempts) - 1) + 0.6, -0.6)
        ticks = range(len(self.attempts)) if lane >= 0.15 else sorted({0, len(self.attempts) - 1})
        ax.set_yticks(list(ticks), [str(self.attempts[row].number) for row in ticks] if self.attempts else [])
        ax.grid(visible=False)
        ax.spines[["left", "bottom"]].set_visible(False)

    def _placed(self) -> Iterator[tuple[int, int, FaultRecord]]:
        rows = {attempt.number: row for row, attempt in enumerate(self.attempts)}
        drawn: set[tuple[int, int, bool]] = set()
        for step, fault in self.faults:
            place = (rows.get(fault.attempt, 0), step, fault.in_place)
            if place not in drawn and len(drawn) < 150:
                drawn.add(place)
                yield place[0], step, fault

    def _label(self, ax: Axes, step: int, row: int, text: str, *, raised: int) -> None:
        left = step - self.first > 0.62 * (self.last - self.first)
        ax.annotate(
            one_line(text, 40),
            (step, row),
            xytext=(-7 if left else 7, raised),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center_baseline",
            fontsize=7.5,
            color=canvas.INK,
        )


def fault_lines(ax: Axes, positions: list[float] | list[int]) -> None:
    """A dotted line through the whole panel at each; thinner where there are many."""
    lines = spread(positions)
    width = 0.9 if len(lines) <= 20 else 0.4
    canvas.verticals(ax, lines, 1.0, color=canvas.FAULT, linewidth=width, linestyle=(0, (2, 2)), zorder=1)


def handles(entries: set[str]) -> list[Any]:
    """The legend's entries, in a fixed order."""
    line: dict[str, Any] = {"markersize": 5}
    known = {
        "train": Line2D([], [], color=canvas.TRAIN, linewidth=1.8, marker="o", **line),
        "validation": Line2D([], [], color=canvas.VALIDATION, linewidth=1.8, linestyle=(0, (4, 2)), marker="s", **line),
        "each step": Line2D([], [], color=canvas.STEP, linewidth=1.2),
        "replayed": Line2D([], [], color=canvas.REPLAYED, linewidth=4, alpha=0.5),
        "not a number": Line2D([], [], color=canvas.FAULT, linestyle="", marker="x", **line),
        "memory": Line2D([], [], color=canvas.TRAIN, linewidth=1.5),
        "limit": Line2D([], [], color=canvas.VALIDATION, linewidth=1.2, linestyle=(0, (4, 2))),
        "attempt": Patch(facecolor=canvas.ATTEMPT),
        "fault": Line2D([], [], color=canvas.FAULT, linestyle="", marker="X", **line),
        "fault line": Line2D([], [], color=canvas.FAULT, linewidth=1.0, linestyle=(0, (2, 2))),
        "high-water mark": Line2D([], [], color=canvas.FAULT, linestyle="", marker="^", **line),
        "handled in place": Line2D(
            [], [], color=canvas.FAULT, linestyle="", marker="o", markerfacecolor="none", **line
        ),
        "checkpoint": Line2D([], [], color=canvas.CHECKPOINT, linestyle="", marker="|", markeredgewidth=2, **line),
    }
    for name, handle in known.items():
        handle.set_label(name.removesuffix(" line"))
    return [handle for name, handle in known.items() if name in entries]
