"""One look at memory, whole: process, machine, GPUs, allocator."""

from __future__ import annotations

import time
from typing import Any

from mlflow_resilience.telemetry.allocator import allocator_memory
from mlflow_resilience.telemetry.host import host_memory, own_peak_rss, own_rss, tree
from mlflow_resilience.telemetry.nvml import nvml
from mlflow_resilience.telemetry.units import megabytes


def snapshot() -> dict[str, Any]:
    """Memory now, as plain JSON values; what this machine cannot say is left out.

    ``process_rss_mb`` (this process and all it started), ``worker_rss_mb`` and ``worker_peak_mb`` (this process
    alone, now and ever), ``host_available_mb``, ``host_total_mb``; in a limited memory group ``cgroup_limit_mb``,
    ``cgroup_used_mb``, ``cgroup_working_mb``; ``gpus``, a list of ``index``, ``name``, ``used_mb``, ``total_mb``,
    ``utilisation_percent``, ``own_mb``; ``tf_current_mb`` and ``tf_peak_mb``. Megabytes of 10**6 bytes.
    """
    processes = tree()
    found: dict[str, Any] = {
        "time": round(time.time(), 3),
        "process_rss_mb": megabytes(sum(processes.values())),
        "worker_rss_mb": megabytes(own_rss()),
        "worker_peak_mb": megabytes(own_peak_rss()),
        **host_memory(),
        **allocator_memory(),
    }
    if gpus := nvml().read(processes):
        found["gpus"] = gpus
    return found


def gauges(reading: dict[str, Any]) -> dict[str, float]:
    """A snapshot as the metrics ``memory/...`` of the contract."""
    keys = ("process_rss_mb", "host_available_mb", "tf_peak_mb")
    found = {f"memory/{key}": reading[key] for key in keys if key in reading}
    for gpu in reading.get("gpus", ()):
        for key in ("used_mb", "total_mb"):
            if key in gpu:
                found[f"memory/gpu_{gpu['index']}_{key}"] = gpu[key]
    return found
