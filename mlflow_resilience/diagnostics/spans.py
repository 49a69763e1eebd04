"""Since when does something hold? Small functions over series that the rules share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlflow_resilience.diagnostics.trace import Floats, Trace

Flags = NDArray[np.bool_]

#: So many readings, or fewer at the beginning, are "now"; a verdict needs `LEAST` of them, most of which agree.
RECENT, LEAST, SHARE = 10, 5, 0.8


def holds(flags: Flags) -> bool:
    """Whether it holds now: in four of five of the last ten readings, and there are five at least."""
    recent = flags[-RECENT:]
    return len(recent) >= LEAST and float(recent.mean()) >= SHARE


def since(flags: Flags) -> int:
    """The index from which on it holds in four of five readings up to the last one. It has to hold now."""
    counts = np.cumsum(flags[::-1])[::-1] / np.arange(len(flags), 0, -1)
    return int(np.argmax(flags & (counts >= SHARE)))


def place(trace: Trace, index: int) -> tuple[int, int]:
    """Epoch and step of a reading."""
    return int(trace.epochs[index]), int(trace.steps[index])


def median(values: Floats) -> float:
    """NaN where there is no number among them."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def names(chosen: list[str], most: int = 4) -> str:
    """Some of the names, and how many more."""
    more = len(chosen) - most
    return ", ".join(chosen[:most]) + (f" and {more} more" if more > 0 else "")
