"""What the kernel alone can tell or do: OOM kills of our memory group, orphans, a child's fate bound to ours."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)


def adopt_orphans() -> None:
    """Descendants whose parent ends become our children, however often they forked."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """SIGTERM for this process when its parent is killed. Fit to be called between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


def oom_kills(own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """How many processes of our memory group the kernel has killed for want of memory; None if it does not say."""
    for path in _counters(own, root):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            key, _, value = line.partition(" ")
            if key == "oom_kill" and value.isdecimal():
                return int(value)
    return None


def _counters(own: Path, root: Path) -> list[Path]:
    """Where the count may be, ours first; in a container our group is seen as the mount itself."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            found += [root / "memory" / part / "memory.oom_control" for part in (path.strip("/"), "")]
        elif number == "0":
            found += [root / part / "memory.events" for part in (path.strip("/"), "")]
    return found


def children(pid: int) -> list[int]:
    """The living or unreaped children of a process."""
    return [each for each in map(int, filter(str.isdecimal, os.listdir("/proc"))) if parent(each) == pid]


def parent(pid: int) -> int | None:
    """A process's parent; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[1])


def is_stopped(pid: int) -> bool:
    """Whether a process is halted by SIGSTOP or a tracer, and so cannot answer."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] in ("T", "t")
