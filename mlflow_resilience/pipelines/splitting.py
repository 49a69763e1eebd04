"""Which records are held out for validation: a share of each class, drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlflow_resilience.errors import UsageError


def split(labels: Sequence[int] | np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices for training and for validation, each in rising order. ``share`` of every class, rounded, is held out;
    one record of it at least stays in training. Raises UsageError unless ``0 <= share < 1``."""
    if not 0.0 <= share < 1.0:
        raise UsageError(f"validation={share}: a share is needed, 0 or more and below 1")
    held_out: list[int] = []
    drawn, labels = np.random.default_rng(seed), np.asarray(labels)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        wanted = min(round(share * len(members)), len(members) - 1)
        held_out.extend(drawn.permutation(members)[:wanted])
    chosen = np.zeros(len(labels), bool)
    chosen[held_out] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
