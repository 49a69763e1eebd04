"""A job's folder, its lease, and whole-or-not-at-all files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool import atomic, process
from mlflow_resilience.spool.folder import JobFolder, home, jobs
from mlflow_resilience.spool.journal import read


def test_create_open_and_order(tmp_path: Path) -> None:
    """Jobs are listed newest first; a folder without a journal is no job."""
    first, second = JobFolder.create(tmp_path), JobFolder.create(tmp_path)
    (tmp_path / "jobs" / "zzz").mkdir()
    found = jobs(tmp_path)
    assert {each.job_id for each in found} == {first.job_id, second.job_id}
    assert [each.job_id for each in found] == sorted((each.job_id for each in found), reverse=True)
    assert JobFolder.open(first.path) == first
    ((header, _),) = read(first.journal)
    assert header["job_id"] == first.job_id
    with pytest.raises(FileNotFoundError, match="no job in"):
        JobFolder.open(tmp_path)
    assert jobs(tmp_path / "nowhere") == []


def test_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment, else in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_RESILIENCE_HOME", raising=False)
    assert home() == tmp_path / ".mlflow_resilience"
    monkeypatch.setenv("MLFLOW_RESILIENCE_HOME", "elsewhere")
    assert home() == tmp_path / "elsewhere"


HOLDER = """
import sys, time
from mlflow_resilience.spool.folder import JobFolder
lease = JobFolder.open(sys.argv[1]).lease("supervisor")
print(lease is not None, flush=True)
time.sleep(60)
"""


def test_lease_is_exclusive_and_dies_with_its_owner(tmp_path: Path) -> None:
    """Another process's lease is refused with its owner named; a killed owner's is free."""
    folder = JobFolder.create(tmp_path)
    assert folder.owner() is None
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder.path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "True"
    assert folder.lease() is None
    owner = folder.owner()
    assert owner is not None
    assert (owner["pid"], owner["role"], owner["host"]) == (child.pid, "supervisor", process.host())
    assert process.is_alive(child.pid, owner["start_ticks"])
    assert not process.is_alive(child.pid, owner["start_ticks"] + 1)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not process.is_alive(owner["pid"], owner["start_ticks"])
    with folder.lease() or pytest.fail("still held") as lease:
        assert folder.owner() is not None
    lease.release()
    assert folder.owner() is None


def test_a_zombie_is_not_alive() -> None:
    """A dead child that nobody has waited for does not run."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive(child)
    os.waitpid(child, 0)
    assert process.is_alive(os.getpid(), process.start_ticks(os.getpid()))


def test_atomic_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed replacement leaves the old content and no litter."""
    path = tmp_path / "state.json"
    assert atomic.read_json(path) is None
    atomic.write_json(path, {"a": 1})
    assert atomic.read_json(path) == {"a": 1}

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        atomic.write_json(path, {"a": 2})
    assert atomic.read_json(path) == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]
    path.write_text("{torn")
    assert atomic.read_json(path) is None


def test_the_journals_bounds_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In megabytes. Beyond the one for the disk, system metrics are thinned, and it is said; curves never are."""
    monkeypatch.setenv("MLFLOW_RESILIENCE_JOURNAL_DISK_MB", "0.01")
    folder = JobFolder.create(tmp_path)
    journal = folder.open_journal()
    for step in range(400):
        journal.append("points", attempt=1, points=[["loss", step, 1.0, step]])
        journal.append("gauges", points=[["memory/process_rss_mb", step, 1.0, step]])
        if step % 50 == 0:
            journal.flush()
    journal.close()
    kinds = [entry["kind"] for entry, _ in read(folder.journal)]
    assert kinds.count("points") == 400
    assert 40 <= kinds.count("gauges") < 250
    thinned = [entry for entry, _ in read(folder.journal) if entry.get("name") == "gauges_thinned"]
    assert len(thinned) == 1


@pytest.mark.parametrize("text", ["much", "-1", "0", "nan"])
def test_a_bound_that_is_no_number_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """In one line that names it."""
    folder = JobFolder.create(tmp_path)
    monkeypatch.setenv("MLFLOW_RESILIENCE_JOURNAL_MEMORY_MB", text)
    with pytest.raises(UsageError, match=f"MLFLOW_RESILIENCE_JOURNAL_MEMORY_MB={text}: a number of megabytes"):
        folder.open_journal()
