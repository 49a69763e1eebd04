"""The memory group that this process is in: its limit and what of it is used (cgroup v1 and v2)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: Version 1 writes "no limit" as the largest page-aligned integer; no machine has an exabyte.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class _Files:
    limit: str
    used: str
    page_cache: str  # the key in memory.stat


_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2 = _Files("memory.max", "memory.current", "inactive_file")


@dataclass(frozen=True)
class MemoryGroup:
    """The tightest limit that holds for this process. ``working`` is ``used`` less the page cache that the kernel
    gives back before it kills."""

    limit: int
    used: int
    working: int


def memory_group(proc: Path = Path("/proc/self")) -> MemoryGroup | None:
    """The group with the least room left among this process's own and its ancestors; None where nothing limits."""
    try:
        own, mounts = (proc / "cgroup").read_text(), (proc / "mountinfo").read_text()
    except OSError:
        return None
    groups = [group for folder, files in _folders(own, mounts) if (group := _group(folder, files))]
    return min(groups, key=lambda group: group.limit - group.working, default=None)


def _folders(own: str, mounts: str) -> list[tuple[Path, _Files]]:
    """The group's folder and all above it up to the mount, for each hierarchy that counts memory."""
    found: list[tuple[Path, _Files]] = []
    for line in own.splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            files, kind = _V1, "cgroup"
        elif number == "0" and not controllers:
            files, kind = _V2, "cgroup2"
        else:
            continue
        for root, mount in _mounts(mounts, kind):
            folder = _below(mount, root, path)
            found += [(each, files) for each in (folder, *folder.parents) if each.is_relative_to(mount)]
    return found


def _mounts(mounts: str, kind: str) -> list[tuple[str, Path]]:
    """(root within the hierarchy, mount point) of each mount of this kind that has the memory controller."""
    found = []
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields, system = left.split(), right.split()
        if len(fields) < 5 or not system or system[0] != kind:
            continue
        if kind == "cgroup" and "memory" not in system[-1].split(","):
            continue
        found.append((fields[3], Path(fields[4])))
    return found


def _below(mount: Path, root: str, path: str) -> Path:
    """The group's folder; the mount itself where a container shows another path than the kernel's."""
    inner = path.removeprefix(root) if root != "/" and path.startswith(root) else path
    folder = mount / inner.strip("/")
    return folder if folder.is_dir() and ".." not in folder.parts else mount


def _group(folder: Path, files: _Files) -> MemoryGroup | None:
    limit, used = _number(folder / files.limit), _number(folder / files.used)
    if limit is None or used is None or limit >= _NO_LIMIT:
        return None
    return MemoryGroup(limit, used, max(0, used - _page_cache(folder, files.page_cache)))


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None  # "max" is no limit


def _page_cache(folder: Path, key: str) -> int:
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    values = dict(line.split(None, 1) for line in lines if " " in line)
    return int(values.get(key, 0))
