"""Memory at each fault: then, at most, and the limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlflow_resilience.spool.record import JobRecord

_MOST_ROWS = 100
Row = dict[str, Any]


def high_water(record: JobRecord) -> list[Row]:
    """Memory at each fault that has a snapshot: then, at most since the fault before, and the limit."""
    rows = []
    for fault in record.faults:
        marks = fault.memory.get("high_water") if isinstance(fault.memory.get("high_water"), dict) else {}
        for key, name, limit in _figures(fault.memory):
            now, most = fault.memory.get(key), (marks or {}).get(key)
            if key.startswith("gpu_"):
                now = next(iter(_gpu(fault.memory, key, "used_mb")), None)
            if now is not None or most is not None:
                rows.append({"fault": fault.number, "class": fault.failure_class, "what": name,
                             "now": _mb(now), "most": _mb(most), "limit": _mb(limit)})  # fmt: skip
    return rows[:_MOST_ROWS]


def _figures(memory: Row) -> Iterable[tuple[str, str, Any]]:
    yield "process_rss_mb", "process tree", memory.get("cgroup_limit_mb") or memory.get("host_total_mb")
    for gpu in memory.get("gpus") or ():
        if isinstance(gpu, dict) and "index" in gpu:
            yield f"gpu_{gpu['index']}_used_mb", f"GPU {gpu['index']}", gpu.get("total_mb")


def _gpu(memory: Row, key: str, value: str) -> Iterable[Any]:
    return (gpu.get(value) for gpu in memory.get("gpus") or () if key == f"gpu_{gpu.get('index')}_used_mb")


def _mb(value: Any) -> str:
    return f"{value:,.0f} MB" if isinstance(value, int | float) else ""
