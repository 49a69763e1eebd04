"""The memory that a block or a function takes."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, overload

from mlflow_resilience.telemetry.allocator import allocator_memory
from mlflow_resilience.telemetry.host import own_peak_rss, own_rss
from mlflow_resilience.telemetry.units import megabytes

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)


@dataclass
class MemoryUse:
    """Resident memory of this process before, at most and after, in megabytes; filled in when the block ends."""

    name: str = ""
    before_mb: float = 0.0
    peak_mb: float = 0.0
    after_mb: float = 0.0
    seconds: float = 0.0
    tf_peak_mb: float | None = None  # TensorFlow's GPU allocator, since the process began

    @property
    def growth_mb(self) -> float:
        """What was still held at the end."""
        return round(self.after_mb - self.before_mb, 1)

    @property
    def extra_mb(self) -> float:
        """What was taken at most, over what was there before."""
        return round(self.peak_mb - self.before_mb, 1)

    def __str__(self) -> str:
        return (
            f"{self.name or 'block'}: peak {self.peak_mb:.1f} MB ({self.extra_mb:+.1f}), "
            f"kept {self.growth_mb:+.1f} MB, {self.seconds:.2f} s"
        )


class Measurement:
    """What :func:`measure_memory` gives: a context manager that is a decorator as well."""

    def __init__(self, report: Callable[[MemoryUse], object] | None, interval_seconds: float, name: str = "") -> None:
        self._report, self._interval = report, interval_seconds
        self._use = MemoryUse(name)
        self._highest = 0
        self._stop = threading.Event()

    def __enter__(self) -> MemoryUse:
        self._stop.clear()
        self._peak_before, self._before, self._began = own_peak_rss(), own_rss(), time.perf_counter()
        self._highest = self._before
        self._watcher = threading.Thread(target=self._watch, name="mlflow-resilience-measure", daemon=True)
        self._watcher.start()
        return self._use

    def __exit__(self, *_: object) -> None:
        use, after = self._use, own_rss()
        use.seconds = time.perf_counter() - self._began
        self._stop.set()
        self._watcher.join()
        peak = own_peak_rss()
        # The kernel's mark misses nothing, but speaks of this block only when it rose within it.
        highest = max(self._highest, after, peak if peak > self._peak_before else 0)
        use.before_mb, use.peak_mb, use.after_mb = (megabytes(each) for each in (self._before, highest, after))
        use.tf_peak_mb = allocator_memory().get("tf_peak_mb")
        (self._report or _say)(use)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> R:
            with Measurement(self._report, self._interval, function.__qualname__) as use:
                measured.memory = use  # type: ignore[attr-defined]
                return function(*args, **kwargs)

        return measured

    def _watch(self) -> None:
        while not self._stop.wait(self._interval):
            self._highest = max(self._highest, own_rss())


@overload
def measure_memory(function: Callable[P, R]) -> Callable[P, R]: ...
@overload
def measure_memory(
    *, report: Callable[[MemoryUse], object] | None = None, interval_seconds: float = 0.01
) -> Measurement: ...
def measure_memory(
    function: Callable[..., Any] | None = None,
    *,
    report: Callable[[MemoryUse], object] | None = None,
    interval_seconds: float = 0.01,
) -> Any:
    """Measure the memory that a function or a block takes.

    ``@measure_memory`` on a function, or ``with measure_memory() as use:``. ``report`` gets the :class:`MemoryUse`
    when the call or the block ends, also by an exception (default: a line at level INFO); a decorated function keeps
    its latest as ``function.memory``. The figures are those of the whole process, other threads included.
    """
    measurement = Measurement(report, interval_seconds)
    return measurement if function is None else measurement(function)


def _say(use: MemoryUse) -> None:
    _log.info("%s", use)
