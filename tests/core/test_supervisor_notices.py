"""What bounds a job over its processes, and who is told when it is the supervisor that stops."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.core.supervised import supervised

#: Tells whom the job tells, as the real sender does, and nothing else.
SENDER = """
import sys, time
from mlflow_resilience.notify import following
from mlflow_resilience.spool.codec import Reader
from mlflow_resilience.spool.folder import JobFolder
folder = JobFolder.open(sys.argv[1])
reader = Reader(folder.journal)
with following(folder):
    while not any(entry["kind"] == "job_ended" for entry, _ in reader.poll()):
        time.sleep(0.05)
"""
DIES = "begin(); reach(7); os.kill(os.getpid(), signal.SIGKILL)"


def test_seconds_lost_in_earlier_processes_count(tmp_path: Path) -> None:
    """Each death costs the job more than it may lose, and the second one finds that out."""
    worker = """
begin()
if attempt > 1: journal.append("lost", durable=True, attempt=attempt, seconds=50.0, steps=5)
reach(10 * attempt)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with supervised(tmp_path / "home", worker, max_lost_time=40.0) as job:
        result = job.end()
    assert result["outcome"] == "failed"
    assert [entry["basis"] for entry in job.entries("decision")] == ["first", "lost_time"]


@pytest.mark.parametrize(
    ("worker", "event", "told"),
    [
        pytest.param(DIES, "stop", "process_death", id="deaths without progress"),
        pytest.param("begin(); decide('stop', basis='stop_class'); sys.exit(1)", "stop", "device_oom", id="worker"),
        pytest.param("begin(); end('KILLED', 3); sys.exit(75)", "preemption", None, id="preempted"),
        pytest.param("begin(); end()", None, None, id="finished"),
    ],
)
def test_whoever_ends_the_job_one_notice_tells_of_it(
    tmp_path: Path, worker: str, event: str | None, told: str | None
) -> None:
    """A command of the policy's hears of the end from the sender's side, the worker being gone."""
    code = f"import sys; open({str(tmp_path / 'told')!r}, 'a').write(sys.stdin.read() + chr(10))"
    notify = [sys.executable, "-c", code]
    with supervised(tmp_path / "home", worker, sender=SENDER, notify=notify) as job:
        job.end()
        job_id = job.folder.job_id
    lines = (tmp_path / "told").read_text().splitlines() if (tmp_path / "told").exists() else []
    notices = [json.loads(line) for line in lines]
    assert [notice["event"] for notice in notices] == ([event] if event else [])
    assert all(notice["job_id"] == job_id and notice["failure_class"] == told for notice in notices)
