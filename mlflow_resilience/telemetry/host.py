"""Memory of this process, of the processes it started, and of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from mlflow_resilience.telemetry.cgroup import memory_group
from mlflow_resilience.telemetry.units import megabytes


def own_rss() -> int:
    """Resident bytes of this process alone."""
    return int(psutil.Process().memory_info().rss)


def own_peak_rss() -> int:
    """The most that was ever resident in this process, as the kernel counts it; 0 where it does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def tree() -> dict[int, int]:
    """Resident bytes by process id: this process and all below it in its own session.

    A child that opened a session of its own (such as the sender) is a program of its own and is left out. Pages
    that processes share count in each of them.
    """
    found = {os.getpid(): own_rss()}
    session = os.getsid(0)
    for child in psutil.Process().children(recursive=True):
        try:
            if os.getsid(child.pid) == session:
                found[child.pid] = int(child.memory_info().rss)
        except (psutil.Error, OSError):
            continue  # it ended meanwhile
    return found


def host_memory() -> dict[str, float]:
    """The machine's available and total memory, and the memory group's limit and use where there is one."""
    memory = psutil.virtual_memory()
    found = {"host_available_mb": megabytes(memory.available), "host_total_mb": megabytes(memory.total)}
    group = memory_group()
    if group is not None:
        found["cgroup_limit_mb"] = megabytes(group.limit)
        found["cgroup_used_mb"] = megabytes(group.used)
        found["cgroup_working_mb"] = megabytes(group.working)
    return found
