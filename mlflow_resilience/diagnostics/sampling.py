"""Statistics of weights and of what a step changed, from samples that were taken before and after it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mlflow_resilience.diagnostics.trace import Floats

#: Weights of a variable that are looked at, evenly spread: of normal ones the standard deviation comes out with an
#: error of 1.1 % (one sigma, 1 over the root of twice as many), against thresholds that are powers of ten.
SAMPLE = 4096


def stride(shape: tuple[int, ...]) -> int:
    """Every so many weights are taken; it shares no divisor with the last dimension, so that all units are reached."""
    step = -(-math.prod(shape) // SAMPLE)
    while step > 1 and math.gcd(step, shape[-1]) != 1:
        step += 1
    return step


def count(shape: tuple[int, ...]) -> int:
    """How many weights of such a variable are taken."""
    return -(-math.prod(shape) // stride(shape))


def statistics(before: ArrayLike, after: ArrayLike, counts: Sequence[int], steps: int) -> Floats:
    """Mean, standard deviation and update ratio of each layer, of whose weights the samples hold ``counts``, one layer
    after the other. The update is what lies between the two samples, divided by the ``steps`` between them. NaN where
    there is a weight that is not finite."""
    earlier, weights = np.asarray(before), np.asarray(after)
    starts, sizes = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int), np.asarray(counts, np.float64)
    mean = np.add.reduceat(weights, starts, dtype=np.float64) / sizes
    if not np.isfinite(mean).all():
        return np.full((len(counts), 3), np.nan)
    squares = np.add.reduceat(np.square(weights, dtype=np.float64), starts) / sizes
    difference = np.subtract(weights, earlier, dtype=np.float64)
    changed = np.sqrt(np.add.reduceat(np.square(difference, out=difference), starts)) / max(1, steps)
    held = np.sqrt(np.add.reduceat(np.square(earlier, dtype=np.float64), starts))
    ratio = np.divide(changed, held, out=np.full_like(changed, np.nan), where=held > 0)
    return np.stack([mean, np.sqrt(np.maximum(squares - np.square(mean), 0.0)), ratio], axis=1)
