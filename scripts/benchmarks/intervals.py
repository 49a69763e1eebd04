"""How sure a median is."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

_DRAWS = 4000


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % of the medians of samples drawn from the values (the percentile bootstrap of Efron, 1979)."""
    drawn = random.Random(0)
    medians = sorted(statistics.median(drawn.choices(values, k=len(values))) for _ in range(_DRAWS))
    return medians[_DRAWS // 40], medians[-_DRAWS // 40 - 1]
