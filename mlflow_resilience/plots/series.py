"""The points of a figure: which belong together, and no more of them than can be seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mlflow_resilience.spool.curve import Series

Floats = NDArray[np.float64]
Columns = tuple[Floats, Floats]  # steps and values

#: MLflow stores infinity as the largest double; nothing near it can be drawn.
_TOO_LARGE = 1e300


@dataclass
class Panel:
    """The keys that are drawn in one panel, by what they are: ``train``, ``validation``, ``step``."""

    name: str
    keys: dict[str, str] = field(default_factory=dict)


def panels(keys: Iterable[str], limit: int) -> tuple[list[Panel], int]:
    """Training and validation of a metric side by side, its per-step values behind them; loss first. Also how many
    panels are beyond ``limit``. Diagnostics have a figure of their own."""
    found: dict[str, Panel] = {}
    for key in keys:
        if key.startswith("diagnostics/"):
            continue
        name, role = _place(key)
        found.setdefault(name, Panel(name)).keys[role] = key
    ordered = sorted(found.values(), key=_rank)
    return ordered[:limit], max(0, len(ordered) - limit)


def _place(key: str) -> tuple[str, str]:
    if key.startswith("batch/") and len(key) > len("batch/"):
        return key.removeprefix("batch/"), "step"
    if key.startswith("val_") and len(key) > len("val_"):
        return key.removeprefix("val_"), "validation"
    return key, "train"


def _rank(panel: Panel) -> tuple[int, int, str]:
    minor = "/" in panel.name or panel.name in ("learning_rate", "lr")
    return (0 if panel.name == "loss" else 2 if minor else 1), -len(panel.keys), panel.name


def columns(series: Series | None) -> Columns:
    """Steps and values; what cannot be drawn (NaN, infinity) is NaN."""
    if series is None or not len(series):
        return np.empty(0), np.empty(0)
    steps = np.frombuffer(series.steps, dtype=np.int64).astype(np.float64)
    values = np.frombuffer(series.values, dtype=np.float64).copy()
    values[~(np.abs(values) < _TOO_LARGE)] = np.nan
    return steps, values


def thinned(steps: Floats, values: Floats, limit: int) -> Columns:
    """At most about ``limit`` points: the lowest and the highest of each stretch, so that no spike is
    lost, and the first that is no number, so that no gap is."""
    if len(steps) <= limit:
        return steps, values
    kept: list[int] = []
    for part in np.array_split(np.arange(len(steps)), max(1, limit // 2)):
        missing = np.isnan(values[part])
        numbers = part[~missing]
        places = {int(part[np.argmax(missing)])} if missing.any() else set()  # a gap stays one
        if len(numbers):
            places |= {int(numbers[np.argmin(values[numbers])]), int(numbers[np.argmax(values[numbers])])}
        kept += sorted(places)
    return steps[kept], values[kept]


def joined(pieces: list[Columns]) -> Columns:
    """Several pieces as one line with gaps between them."""
    gap = np.array([np.nan])
    steps = [each for piece, _ in pieces for each in (piece, gap)]
    values = [each for _, piece in pieces for each in (piece, gap)]
    return (np.concatenate(steps), np.concatenate(values)) if pieces else (np.empty(0), np.empty(0))


def spread(positions: Iterable[float], limit: int = 300) -> list[float]:
    """Positions of marks, without those that would fall on one another."""
    ordered = sorted(set(positions))
    if len(ordered) <= limit:
        return ordered
    width = (ordered[-1] - ordered[0]) / limit
    kept = {int((position - ordered[0]) / width): position for position in ordered}
    return sorted(kept.values())


def wants_log(arrays: Iterable[Floats]) -> bool:
    """Whether values span so much that a linear axis would show only the largest."""
    merged = np.concatenate([*arrays, np.empty(0)])
    merged = merged[~np.isnan(merged)]
    if len(merged) < 3 or merged.min() <= 0:
        return False
    return bool(merged.max() > 1000 * np.median(merged))


def words(name: str, series: Mapping[str, Series]) -> str:
    """The last and the best value of each role, for the text alternative."""
    parts = []
    for role, each in series.items():
        values = [value for value in each.values if math.isfinite(value) and abs(value) < _TOO_LARGE]
        missing = len(each) - len(values)
        text = f"{role} ends at {values[-1]:.4g} (between {min(values):.4g} and {max(values):.4g})" if values else role
        parts.append(text + (f", {missing} not a number" if missing else ""))
    return f"{name}: {'; '.join(parts)}"
