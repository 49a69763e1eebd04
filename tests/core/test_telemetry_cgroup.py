"""Memory limits of cgroup v1 and v2, read from files laid as the kernel lays them."""

from __future__ import annotations

from pathlib import Path

from mlflow_resilience.telemetry.cgroup import MemoryGroup, memory_group

MB = 1_000_000


def proc(tmp_path: Path, own: str, mountinfo: str) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cgroup").write_text(own)
    (tmp_path / "proc/mountinfo").write_text(mountinfo)
    return tmp_path / "proc"


def group(folder: Path, *, limit: str, used: int, stat: str = "", version: int = 2) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    (folder / names[0]).write_text(limit + "\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(stat)


def test_v2_limit_of_an_ancestor_holds(tmp_path: Path) -> None:
    """Own group unlimited, its parent not; page cache that can be given back is no working memory."""
    mount = tmp_path / "cgroup"
    group(mount / "pod/box", limit="max", used=50 * MB)
    group(mount / "pod", limit=str(500 * MB), used=80 * MB, stat=f"anon {9 * MB}\ninactive_file {30 * MB}\n")
    files = proc(tmp_path, "0::/pod/box\n", f"31 23 0:28 / {mount} rw,relatime - cgroup2 cgroup2 rw\n")
    assert memory_group(files) == MemoryGroup(500 * MB, 80 * MB, 50 * MB)


def test_the_group_with_the_least_room_counts(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    group(mount / "pod/box", limit=str(100 * MB), used=20 * MB)
    group(mount / "pod", limit=str(500 * MB), used=490 * MB)
    files = proc(tmp_path, "0::/pod/box\n", f"31 23 0:28 / {mount} rw - cgroup2 cgroup2 rw\n")
    found = memory_group(files)
    assert found is not None and found.limit == 500 * MB


def test_v1_in_a_container_that_shows_another_path(tmp_path: Path) -> None:
    """The kernel's path does not exist below the mount, which is then the group itself."""
    mount = tmp_path / "memory"
    group(mount, limit=str(300 * MB), used=100 * MB, stat=f"total_inactive_file {MB}\n", version=1)
    own = "9:name=systemd:/\n4:memory:/docker/abc\n0::/\n"
    files = proc(tmp_path, own, f"35 31 0:32 / {mount} rw,relatime - cgroup cgroup rw,memory\n")
    assert memory_group(files) == MemoryGroup(300 * MB, 100 * MB, 99 * MB)


def test_v1_bind_mount_of_a_group(tmp_path: Path) -> None:
    """A mount whose root is our own group is that group."""
    mount = tmp_path / "memory"
    group(mount / "inner", limit=str(300 * MB), used=100 * MB, version=1)
    mounts = f"35 31 0:32 /docker/abc {mount} rw,relatime - cgroup cgroup rw,memory\n"
    files = proc(tmp_path, "4:memory:/docker/abc/inner\n", mounts)
    assert memory_group(files) == MemoryGroup(300 * MB, 100 * MB, 100 * MB)


def test_no_limit_is_none(tmp_path: Path) -> None:
    mount = tmp_path / "memory"
    group(mount, limit=str(0x7FFFFFFFFFFFF000), used=100 * MB, version=1)
    files = proc(tmp_path, "4:memory:/\n", f"35 31 0:32 / {mount} rw,relatime - cgroup cgroup rw,memory\n")
    assert memory_group(files) is None


def test_strange_files_are_no_error(tmp_path: Path) -> None:
    """Missing files, other mounts, a path that climbs out: none of them fails."""
    assert memory_group(tmp_path / "nothing") is None
    mounts = "1 2 0:3 / /proc rw - proc proc rw\nnonsense\n35 31 0:32 / /sys/cpu rw - cgroup cgroup rw,cpu\n"
    assert memory_group(proc(tmp_path, "4:memory:/../..\n0::/\n", mounts)) is None
