"""What ends the training process, or halts it."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from typing import Any

from mlflow_resilience.strikes.place import Place, Strike


def _signal(number: int) -> Strike:
    def strike(batch: Any, place: Place) -> Any:
        os.kill(os.getpid(), number)
        return batch

    return strike


def _segfault(batch: Any, place: Place) -> Any:
    ctypes.string_at(0)
    return batch


def _hang(batch: Any, place: Place) -> Any:
    threading.Event().wait()
    return batch


STRIKES: dict[str, Strike] = {
    "kill": _signal(signal.SIGKILL),
    "segfault": _segfault,
    "term": _signal(signal.SIGTERM),
    "hang": _hang,
}
