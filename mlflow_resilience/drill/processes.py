"""The processes of one job tree, known by a text that is in the arguments or the environment of each: its folder."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def left_running(sign: str | Path) -> list[str]:
    """The command lines of those that are there, this process excepted."""
    return [_command(pid) for pid in _belonging(sign)]


def end_all(sign: str | Path, seconds: float = 10.0) -> bool:
    """SIGKILL to all of them, and to those that they start meanwhile; whether all are gone in time."""

    def ended() -> bool:
        found = list(_belonging(sign))
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not found

    return eventually(ended, seconds)


def eventually(condition: Callable[[], bool], seconds: float = 90.0) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _belonging(sign: str | Path) -> Iterator[int]:
    for path in filter(lambda path: path.name.isdigit(), Path("/proc").iterdir()):
        with contextlib.suppress(OSError):
            text = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
            if os.fsencode(sign) in text and int(path.name) != os.getpid():
                yield int(path.name)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return str(pid)
