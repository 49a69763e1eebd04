"""Memory over time, from a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from mlflow_resilience.telemetry.high_water import HighWater
from mlflow_resilience.telemetry.reading import gauges, snapshot

#: key, step (whole seconds since the job started), value, time in milliseconds
Point = tuple[str, int, float, int]

_log = logging.getLogger(__name__)


_running: list[Monitor] = []


def at_fault() -> dict[str, Any]:
    """A snapshot, as it is recorded with a fault; where a monitor runs in this process, with ``high_water``, the marks
    since the last fault, which begin anew."""
    if not _running:
        return snapshot()
    found = _running[-1].snapshot()
    _running[-1].reset_high_water()
    return found


class Monitor:
    """Reads memory once every ``interval_seconds`` and hands ``sink`` the points of each reading.

    ``started`` is when the job began (seconds since the epoch), which steps count from. No (key, step) comes twice,
    not even from two processes one after the other: a monitor's first point is at the next whole second. A sink that
    raises loses that reading's points and nothing else.
    """

    def __init__(
        self,
        sink: Callable[[list[Point]], object],
        *,
        started: float | None = None,
        interval_seconds: float = 1.0,
        read: Callable[[], dict[str, Any]] = snapshot,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sink, self._read, self._clock = sink, read, clock
        self._started = clock() if started is None else started
        self._interval = interval_seconds
        self._last_step = -1 if started is None else self._step()
        self._high_water = HighWater()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mlflow-resilience-memory", daemon=True)
        self._said = False

    def start(self) -> Self:
        """Begin reading."""
        self._thread.start()
        _running.append(self)
        return self

    def stop(self) -> None:
        """End the thread; no point comes after this returns."""
        self._stop.set()
        if self in _running:
            _running.remove(self)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def snapshot(self) -> dict[str, Any]:
        """Memory now, with ``high_water``: the marks since the last reset."""
        reading = self._read()
        self._high_water.add(reading)
        return reading | {"high_water": self.high_water()}

    def high_water(self) -> dict[str, float]:
        """The highest of each figure since the last reset (of ``host_available_mb`` the lowest)."""
        return self._high_water.marks()

    def reset_high_water(self) -> None:
        """Begin anew, as after a fault that was recorded."""
        self._high_water.reset()

    def sample(self) -> None:
        """One reading: into the high-water marks always, to the sink when its step is new."""
        reading = self._read()
        self._high_water.add(reading)
        step = self._step()
        if step <= self._last_step:
            return
        self._last_step = step
        moment = int(self._clock() * 1000)
        self._sink([(key, step, value, moment) for key, value in gauges(reading).items()])

    def _step(self) -> int:
        return int(self._clock() - self._started)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.sample()
            except Exception as error:  # watching must never harm what is watched
                self._say(error)
            self._stop.wait(self._interval)

    def _say(self, error: Exception) -> None:
        if not self._said:
            _log.warning("memory was not recorded: %s: %s", type(error).__name__, error)
        self._said = True
