"""What a striker does: the faults on purpose of the plan, and blows that fall on more than one process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlflow_resilience.strikes import STRIKES, Place


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _group() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _everything() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    _group()


_BATCH = np.zeros((2, 3), "float32")  # what a strike of a step's batch is given elsewhere

_BLOWS: dict[str, Callable[[], None]] = {"stop": _stop, "group": _group, "everything": _everything}


def strike(kind: str, job: Path) -> None:
    """Strike the job in this folder, from within its worker. Raises whatever the kind raises."""
    if kind in _BLOWS:
        _BLOWS[kind]()
        return
    nothing = Place(folder=job, checkpoints=job / "checkpoints", settle=lambda: None, read=lambda path: None)
    STRIKES[kind](_BATCH, nothing)
