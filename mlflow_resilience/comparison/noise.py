"""How far two runs may be apart and still be the same, as the runs themselves tell.

An epoch's noise is how far its value lies from the mean of the epochs before and after it, which leaves out that the
run still improves. Two draws of the same would differ by the noise of both; up to three times that is within noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from mlflow_resilience.comparison.values import ComparedRun, Points

EPOCHS = 7  # the last ones of each run
FACTOR = 3.0
FEWEST = 3  # deviations, over both runs, below which they tell nothing
ROUNDING = 1e-6  # of the value: what the order of additions alone makes

#: Of independent values, the distance from the mean of both neighbours has 3/2 of their variance, and the difference of
#: two has twice that variance.
_OF_A_DIFFERENCE = math.sqrt(2 / 1.5)


def tolerance(curves: Iterable[Points]) -> float | None:
    """How far apart the ends of curves with such noise may be; None where there are too few epochs to tell."""
    found = [deviation for points in curves for deviation in _deviations(points)]
    if len(found) < FEWEST:
        return None
    spread = math.sqrt(sum(deviation * deviation for deviation in found) / len(found))
    return FACTOR * _OF_A_DIFFERENCE * spread


def _deviations(points: Points) -> list[float]:
    """Of each of the last epochs from the mean of its neighbours, among those that are numbers."""
    values = [value for _, value in points[-EPOCHS:] if math.isfinite(value)]
    return [here - (before + after) / 2 for before, here, after in zip(values, values[1:], values[2:], strict=False)]


def judged_metrics(a: ComparedRun, b: ComparedRun) -> list[str]:
    """The metrics that tell whether two results are the same: those of validation, where both have any."""
    both = [key for key in a.metrics if key in b.metrics and key not in ("learning_rate", "lr")]
    return sorted([key for key in both if key.startswith("val_")] or both)


def is_within(a: float, b: float, most: float | None) -> bool:
    """Whether the two values are equal, or no further apart than ``most``."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= max(most or 0.0, ROUNDING * max(abs(a), abs(b)))
