"""Memory of a job over time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlflow_resilience.plots import canvas
from mlflow_resilience.plots.marks import MOST_BANDS, fault_lines, handles
from mlflow_resilience.plots.series import Floats, columns, thinned
from mlflow_resilience.spool.record import FaultRecord, JobRecord
from mlflow_resilience.summary import one_line

_POINTS = 500  # a line
_MOST_GPUS = 8


@dataclass
class _Panel:
    title: str
    key: str
    limits: dict[str, float] = field(default_factory=dict)  # what it is -> megabytes
    mark: str = ""  # the key of its high-water mark in a fault's snapshot
    lowest: bool = False  # whether low is bad


def memory(record: JobRecord) -> bytes | None:
    """A PNG of memory over the seconds of the job, with limits, high-water marks and faults; None where nothing was
    recorded."""
    shown = _panels(record)
    if not shown:
        return None
    with canvas.styled():
        return canvas.png(_figure(record, shown, 9.2))


def memory_svg(record: JobRecord, *, narrow: bool = False) -> str | None:
    """The same as an SVG element; ``narrow`` for a page 400 pixels wide."""
    shown = _panels(record)
    if not shown:
        return None
    with canvas.styled():
        figure = _figure(record, shown, 3.75 if narrow else 9.2)
        return canvas.svg(figure, "memory-narrow" if narrow else "memory", _text(record, shown))


def _panels(record: JobRecord) -> list[_Panel]:
    gauges = record.gauges
    limit = next((each.memory["cgroup_limit_mb"] for each in record.faults if "cgroup_limit_mb" in each.memory), None)
    group = {"limit": float(limit)} if limit else {}
    wanted = [
        _Panel("process tree", "memory/process_rss_mb", group, "process_rss_mb"),
        _Panel("available on the host", "memory/host_available_mb", {}, "host_available_mb", lowest=True),
    ]
    devices = sorted({int(found[1]) for key in gauges if (found := re.fullmatch(r"memory/gpu_(\d+)_used_mb", key))})
    for device in devices[:_MOST_GPUS]:
        total = gauges.get(f"memory/gpu_{device}_total_mb")
        size = {"size": total.values[-1]} if total is not None and len(total) else {}
        wanted.append(_Panel(f"GPU {device}", f"memory/gpu_{device}_used_mb", size, f"gpu_{device}_used_mb"))
    wanted.append(_Panel("TensorFlow's allocator, peak", "memory/tf_peak_mb", {}, "tf_peak_mb"))
    return [panel for panel in wanted if panel.key in gauges and len(gauges[panel.key])]


def _figure(record: JobRecord, shown: list[_Panel], width: float) -> Figure:
    wide = width > 6
    figure, axes = canvas.stack(width, [1.25] * len(shown), top=0.52 if wide else 0.72, left=0.6 if wide else 0.46)
    entries = {"memory"}
    for ax, panel in zip(axes, shown, strict=True):
        _attempts(ax, record, named=ax is axes[0])
        _draw(ax, record, panel, entries, named=ax is axes[0])
    end = max([1, *(record.gauges[panel.key].steps[-1] for panel in shown)])
    bottom = axes[-1]
    bottom.set_xlim(-0.012 * end, 1.012 * end)
    bottom.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 3, 6, 10]))
    bottom.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _clock(value)))
    bottom.set_xlabel("time since the job began", color=canvas.MUTED, fontsize=8.5)
    canvas.legend(figure, handles(entries), columns=7 if wide else 3)
    return figure


def _attempts(ax: Axes, record: JobRecord, *, named: bool) -> None:
    """Every other attempt shaded; the first panel bears their numbers."""
    spans = [
        (each.started - record.started, (each.ended or record.last_time) - each.started) for each in record.attempts
    ]
    if len(spans) <= MOST_BANDS:
        ax.broken_barh(spans[1::2], (0, 1), transform=ax.get_xaxis_transform(), facecolor=canvas.BAND, zorder=0)
    if named and len(spans) <= 12:
        for attempt, (start, length) in zip(record.attempts, spans, strict=True):
            ax.text(start + length / 2, 0.985, str(attempt.number), transform=ax.get_xaxis_transform(), fontsize=7.5,
                    color=canvas.MUTED, ha="center", va="top")  # fmt: skip


def _draw(ax: Axes, record: JobRecord, panel: _Panel, entries: set[str], *, named: bool) -> None:
    steps, values = columns(record.gauges[panel.key])
    tops = [*values[values == values], *panel.limits.values(), 1.0]
    unit, scale = ("GB", 1000.0) if max(tops) >= 2000 else ("MB", 1.0)
    thin_steps, thin_values = thinned(steps, values / scale, _POINTS)
    ax.plot(thin_steps, thin_values, color=canvas.TRAIN, linewidth=1.5, marker="." if len(steps) == 1 else "", zorder=3)
    ax.fill_between(thin_steps, 0, thin_values, color=canvas.TRAIN, alpha=0.12, linewidth=0, zorder=2)
    for limit in panel.limits.values():
        ax.axhline(limit / scale, color=canvas.VALIDATION, linewidth=1.2, linestyle=(0, (4, 2)), zorder=2)
        entries.add("limit")
    _faults(ax, record, panel, scale, entries, named=named)
    ax.set_ylim(0, max(tops) / scale * 1.35)
    figures = [f"{'lowest' if panel.lowest else 'highest'} {_amount(_worst(record, panel, values))}"]
    figures += [f"{name} {_amount(limit)}" for name, limit in panel.limits.items()]
    canvas.title(ax, f"{panel.title} ({unit})", " · ".join(figures))


def _amount(megabytes: float) -> str:
    return f"{megabytes / 1000:.3g} GB" if megabytes >= 2000 else f"{megabytes:,.0f} MB"


def _faults(ax: Axes, record: JobRecord, panel: _Panel, scale: float, entries: set[str], *, named: bool) -> None:
    faults = [(fault.time - record.started, fault) for fault in record.faults]
    lines = [moment for moment, fault in faults if not fault.in_place]
    fault_lines(ax, lines)
    entries |= {"fault line"} if lines else set()
    for moment, fault in faults[:20]:
        if named and fault.failure_class.endswith("_oom"):
            ax.annotate(one_line(fault.failure_class, 40), (moment, 0.86), xytext=(4, 0), va="top", fontsize=7.5,
                        xycoords=ax.get_xaxis_transform(), textcoords="offset points", color=canvas.INK)  # fmt: skip
    marks = [(moment, mark / scale) for moment, fault in faults if (mark := _mark(fault, panel)) is not None]
    if marks:
        marks = marks[:: max(1, len(marks) // 60)]
        ax.plot(*zip(*marks, strict=True), "v" if panel.lowest else "^", color=canvas.FAULT, markersize=5, zorder=4)
        entries.add("high-water mark")


def _mark(fault: FaultRecord, panel: _Panel) -> float | None:
    marks = fault.memory.get("high_water")
    value = marks.get(panel.mark) if isinstance(marks, dict) else None
    return float(value) if isinstance(value, int | float) else None


def _worst(record: JobRecord, panel: _Panel, values: Floats) -> float:
    """The extreme of the readings and of the marks between them."""
    marks = [mark for fault in record.faults if (mark := _mark(fault, panel)) is not None]
    seen = [*(float(value) for value in values if value == value), *marks]
    return (min if panel.lowest else max)(seen, default=0.0)


def _clock(seconds: float) -> str:
    whole = max(0, int(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def _text(record: JobRecord, shown: list[_Panel]) -> str:
    told = []
    for panel in shown:
        _, values = columns(record.gauges[panel.key])
        limits = "".join(f", {name} {value:,.0f} MB" for name, value in panel.limits.items())
        told.append(
            f"{panel.title}: {'lowest' if panel.lowest else 'highest'} {_worst(record, panel, values):,.0f} MB, "
            f"last {values[-1]:,.0f} MB{limits}"
        )
    return f"Memory over time. {'. '.join(told)}."
