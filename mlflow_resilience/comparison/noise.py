"""How far two runs may be apart and still be the same, as the runs themselves tell.

The changes of a metric from one epoch to the next, late in training, are the noise of single epochs: were both runs
draws of the same, their last values would differ by about the root mean square of these changes. Up to three times
that is within noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from mlflow_resilience.comparison.values import ComparedRun, Points

EPOCHS = 5  # the last ones of each run
FACTOR = 3.0
FEWEST = 3  # changes, over both runs, below which they tell nothing
ROUNDING = 1e-6  # of the value: what the order of additions alone makes


def tolerance(curves: Iterable[Points]) -> float | None:
    """Three times the root mean square of the epoch-to-epoch changes over the last epochs of the given curves; None
    where there are too few."""
    changes = [change for points in curves for change in _changes(points)]
    if len(changes) < FEWEST:
        return None
    return FACTOR * math.sqrt(sum(change * change for change in changes) / len(changes))


def _changes(points: Points) -> list[float]:
    """From one point to the next, among the last that are numbers."""
    values = [value for _, value in points[-EPOCHS:] if math.isfinite(value)]
    return [later - earlier for earlier, later in zip(values, values[1:], strict=False)]


def judged_metrics(a: ComparedRun, b: ComparedRun) -> list[str]:
    """The metrics that tell whether two results are the same: those of validation, where both have any."""
    both = [key for key in a.metrics if key in b.metrics and key not in ("learning_rate", "lr")]
    return sorted([key for key in both if key.startswith("val_")] or both)


def is_within(a: float, b: float, most: float | None) -> bool:
    """Whether the two values are equal, or no further apart than ``most``."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= max(most or 0.0, ROUNDING * max(abs(a), abs(b)))
