"""Faults on purpose, each the real thing wherever the machine allows it: for users' own tests, and for ours.

with mlflow_resilience.testing.faults("raise@60,oom@100"):
    mlflow_resilience.fit(model, x, y)
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mlflow_resilience.fault_plan import PlannedFault, parse

__all__ = ["Injector", "PlannedFault", "faults", "parse", "planned"]

_ASKED_FOR = 8 << 30  # bytes that an allocation on purpose asks for
_SPARE = 1 << 30  # bytes that the rest of the process may take meanwhile
_SLOW_SECONDS = 5.0

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
    ) -> None:
        self._plan = plan
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
                batch = _STRIKES[fault.kind](batch)
        return batch


def _raise(batch: Any) -> Any:
    raise RuntimeError("a fault on purpose, as user code might raise it")


def _oom(batch: Any) -> Any:
    import tensorflow as tf

    allocate = tf.function(lambda elements: tf.fill([elements], 1.0), autograph=False)
    with _little_memory():
        allocate(tf.constant(_ASKED_FOR // 4, tf.int64))
    raise RuntimeError("the machine has memory without bound: it cannot be brought out of it")


def _host_oom(batch: Any) -> Any:
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


def _scaled(factor: float) -> Callable[[Any], Any]:
    def strike(batch: Any) -> Any:
        import tensorflow as tf

        def poison(value: Any) -> Any:
            return value * tf.cast(factor, value.dtype) if value is not None and value.dtype.is_floating else value

        inputs, *others = batch if isinstance(batch, tuple) else (batch,)
        poisoned = tf.nest.map_structure(poison, inputs)
        return (poisoned, *others) if isinstance(batch, tuple) else poisoned

    return strike


def _bug(batch: Any) -> Any:
    import tensorflow as tf

    first = tf.nest.flatten(batch)[0]
    flat = tf.reshape(tf.cast(first, tf.float32), (tf.shape(first)[0], -1))
    columns = int(flat.shape[-1] or tf.shape(flat)[-1])

    return tf.function(lambda: tf.matmul(flat, tf.zeros((columns + 1, 1))), autograph=False)()


def _signal(number: int) -> Callable[[Any], Any]:
    def strike(batch: Any) -> Any:
        os.kill(os.getpid(), number)
        return batch

    return strike


def _segfault(batch: Any) -> Any:
    ctypes.string_at(0)
    return batch


def _hang(batch: Any) -> Any:
    threading.Event().wait()
    return batch


def _slow(batch: Any) -> Any:
    time.sleep(_SLOW_SECONDS)
    return batch


_STRIKES: dict[str, Callable[[Any], Any]] = {
    "raise": _raise,
    "oom": _oom,
    "host_oom": _host_oom,
    "nan": _scaled(float("nan")),
    "spike": _scaled(1e4),
    "bug": _bug,
    "kill": _signal(signal.SIGKILL),
    "segfault": _segfault,
    "term": _signal(signal.SIGTERM),
    "hang": _hang,
    "slow_data": _slow,
}
