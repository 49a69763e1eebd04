"""Is a process that was written down still the same one, and alive?"""

from __future__ import annotations

import os
import socket
from pathlib import Path


def host() -> str:
    """This machine's name, as it is written into journals and tags."""
    return socket.gethostname()


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the command may hold spaces and brackets


def start_ticks(pid: int) -> int | None:
    """When the process began, in clock ticks since boot; None when there is no such process."""
    fields = _stat(pid)
    return int(fields[19]) if len(fields) > 19 else None


def is_alive(pid: int, ticks: int | None = None) -> bool:
    """Whether the process runs (a zombie does not) and, with ``ticks``, is the one that began then."""
    fields = _stat(pid)
    if len(fields) <= 19 or fields[0] in ("Z", "X"):
        return False
    return ticks is None or int(fields[19]) == ticks


def identity(role: str) -> dict[str, object]:
    """This process's fields of an ``owner`` entry."""
    pid = os.getpid()
    return {"role": role, "pid": pid, "host": host(), "start_ticks": start_ticks(pid)}
