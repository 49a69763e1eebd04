"""Faults on purpose, each the real thing wherever the machine allows it: for users' own tests, and for ours.

A fault that is no more than an exception with a recorded message says so (``simulated``, and the tag
``resilience.fault_simulated``).

with mlflow_resilience.testing.faults("raise@60,oom@100"):
    mlflow_resilience.fit(model, x, y)
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from mlflow_resilience.fault_plan import PlannedFault, parse
from mlflow_resilience.strikes import STRIKES, Place

__all__ = ["Injector", "Place", "PlannedFault", "faults", "parse", "planned"]

_planned: tuple[PlannedFault, ...] = ()


@contextlib.contextmanager
def faults(plan: str) -> Iterator[None]:
    """Let every `fit` inside suffer the faults of ``plan`` (``KIND@STEP[xTIMES][,...]``). Raises UsageError."""
    global _planned
    before, _planned = _planned, parse(plan)
    try:
        yield
    finally:
        _planned = before


def planned() -> tuple[PlannedFault, ...]:
    """The faults that :func:`faults` asks for here."""
    return _planned


class Injector:
    """Strikes at the planned steps. ``told(fault)`` is called, and must have written it down, before each strike;
    ``struck()`` gives how often each has struck in earlier processes, and is asked when training has begun."""

    def __init__(
        self,
        plan: tuple[PlannedFault, ...],
        struck: Callable[[], Counter[str]],
        told: Callable[[PlannedFault], None],
        place: Place,
    ) -> None:
        self._plan, self._place = plan, place
        self._ask_struck = struck
        self._struck: Counter[str] | None = None
        self._told = told

    def strike(self, step: int, batch: Any) -> Any:
        """The batch to train at ``step``; or whatever the fault does instead."""
        for fault in self._plan:
            if fault.step != step:
                continue
            if self._struck is None:
                self._struck = self._ask_struck()
            if self._struck[str(fault)] < fault.times:
                self._struck[str(fault)] += 1
                self._told(fault)
                batch = STRIKES[fault.kind](batch, self._place)
        return batch
