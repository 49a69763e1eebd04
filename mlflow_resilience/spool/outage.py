"""A tracking server that is out of reach on purpose: for a job's sender alone, and for a while."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from mlflow_resilience.spool import atomic

_MARK = "outage.json"


def begin(folder: Path, seconds: float) -> None:
    """From now on, for so long, the sender of the job in ``folder`` reaches no server."""
    atomic.write_json(folder / _MARK, {"until": time.time() + seconds})


def is_on(folder: Path) -> bool:
    """Whether it lasts."""
    mark = atomic.read_json(folder / _MARK)
    return isinstance(mark, dict) and time.time() < float(mark.get("until") or 0.0)


def meet(folder: Path) -> None:
    """While it lasts, connect to where nobody listens: the kernel's ConnectionRefusedError is raised, as from a server
    that is gone."""
    if not is_on(folder):
        return
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        socket.create_connection(unheard.getsockname(), timeout=5.0).close()
