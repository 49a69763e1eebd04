"""Allocations that really fail."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlflow_resilience.strikes.place import Place, Strike

_ASKED_FOR = 8 << 30  # bytes that an allocation on purpose asks for
_BEYOND_ANY_GPU = 1 << 42  # bytes, the same of a GPU's allocator
_SPARE = 1 << 30  # bytes that the rest of the process may take meanwhile


def _oom(batch: Any, place: Place) -> Any:
    import tensorflow as tf

    allocate = tf.function(lambda elements: tf.fill([elements], 1.0), autograph=False)
    if tf.config.list_logical_devices("GPU"):  # whose driver does not live within a limit on addresses
        allocate(tf.constant(_BEYOND_ANY_GPU // 4, tf.int64))
    else:
        with _little_memory():
            allocate(tf.constant(_ASKED_FOR // 4, tf.int64))
    raise RuntimeError("the machine has memory without bound: it cannot be brought out of it")


def _host_oom(batch: Any, place: Place) -> Any:
    import numpy as np

    with _little_memory():
        np.empty(_ASKED_FOR, dtype=np.uint8)
    raise RuntimeError("the machine has memory without bound: it cannot be brought out of it")


@contextlib.contextmanager
def _little_memory() -> Iterator[None]:
    """Hardly more memory than this process has already: Linux grants what it does not have, unless it is told."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _SPARE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


STRIKES: dict[str, Strike] = {"oom": _oom, "host_oom": _host_oom}
