"""The unit of every memory figure: a megabyte is 10**6 bytes, as in MLflow's own system metrics."""

from __future__ import annotations


def megabytes(count: float) -> float:
    """Bytes as megabytes, to a tenth."""
    return round(count / 1e6, 1)
