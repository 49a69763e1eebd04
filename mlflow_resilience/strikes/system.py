"""What the operating system refuses: a read, another open file."""

from __future__ import annotations

import os
import resource
from typing import Any

from mlflow_resilience.strikes.place import Place, Strike


def _transient_io(batch: Any, place: Place) -> Any:
    """The kernel's own input/output error: nothing can be read at address 0 of a process."""
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        os.pread(memory, 1, 0)
    finally:
        os.close(memory)
    return batch


def _resource_limit(batch: Any, place: Place) -> Any:
    """One file more than this process may have open."""
    place.settle()  # a checkpoint's write is not to be hit as well
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return batch


STRIKES: dict[str, Strike] = {"transient_io": _transient_io, "resource_limit": _resource_limit}
