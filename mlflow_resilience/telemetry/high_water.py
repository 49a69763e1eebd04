"""High-water marks: the worst of each memory figure since the last reset."""

from __future__ import annotations

import threading
from typing import Any

from mlflow_resilience.telemetry.host import own_peak_rss
from mlflow_resilience.telemetry.units import megabytes

_HIGHEST = ("process_rss_mb", "worker_rss_mb", "cgroup_working_mb", "tf_current_mb", "tf_peak_mb")
_LOWEST = ("host_available_mb",)


class HighWater:
    """Collects readings from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def add(self, reading: dict[str, Any]) -> None:
        """Take a snapshot into account."""
        flat = {key: reading[key] for key in (*_HIGHEST, *_LOWEST) if key in reading}
        for gpu in reading.get("gpus", ()):
            flat |= {f"gpu_{gpu['index']}_{key}": gpu[key] for key in ("used_mb", "own_mb") if key in gpu}
        with self._lock:
            for key, value in flat.items():
                worst = min if key in _LOWEST else max
                self._marks[key] = worst(self._marks.get(key, value), value)

    def marks(self) -> dict[str, float]:
        """The highest of each figure (of ``host_available_mb`` the lowest).

        This process's own peak is the kernel's when it rose since the reset, so that no spike between two readings
        is missed.
        """
        peak = own_peak_rss()
        with self._lock:
            marks = dict(self._marks)
            if peak > self._peak_at_reset and "worker_rss_mb" in marks:
                marks["worker_rss_mb"] = max(marks["worker_rss_mb"], megabytes(peak))
                marks["process_rss_mb"] = max(marks["process_rss_mb"], marks["worker_rss_mb"])
        return marks

    def reset(self) -> None:
        """Forget all; the next reading is the first."""
        with self._lock:
            self._marks: dict[str, float] = {}
            self._peak_at_reset = own_peak_rss()
