"""A warm spare beside a worker: real processes, no TensorFlow."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from mlflow_resilience.spool.process import is_alive
from tests.core.supervised import SENDER, WORKER, eventually, supervised

#: A worker that ends at once on its first attempt, when there is a spare; what it writes tells who has run.
BODY = """
(folder.path / f"ran-{attempt}").write_text(sys.argv[1] if len(sys.argv) > 1 else "cold")
begin(); journal.append("mark", durable=True, mark="stepped", at=time.time(), attempt=attempt)
if attempt < 3:
    while not (folder.path / f"ready-{attempt}").exists(): time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
end()
"""

SPARE = """
import os, sys
ready = os.path.join(os.environ["MLFLOW_RESILIENCE_JOB"], "ready-")
number = 1 + sum(os.path.exists(ready + str(n)) for n in (1, 2))
open(ready + str(number), "w").close()
line = sys.stdin.readline()
if not line: sys.exit(0)
os.environ["MLFLOW_RESILIENCE_ATTEMPT"] = line.strip()
sys.argv[1:] = ["warm"]
"""


def spare(then: str) -> list[str]:
    return [sys.executable, "-c", SPARE + WORKER + then]


def test_a_spare_goes_on_and_another_one_takes_its_place(tmp_path: Path) -> None:
    """Each death is met by a process that was there already; nothing is left at the end."""
    with supervised(tmp_path / "home", BODY, spare_command=spare(BODY)) as job:
        result = job.end()
    assert (result["outcome"], result["left"]) == ("recovered", [])
    assert [(job.folder.path / f"ran-{n}").read_text() for n in (1, 2, 3)] == ["cold", "warm", "warm"]
    told = [entry for entry in job.entries("event") if entry["name"] == "warm_spare"]
    assert [entry["attempt"] for entry in told] == [2, 3]
    assert all(entry["data"]["resident_mb"] > 0 for entry in told)


def test_none_is_made_once_the_job_has_ended(tmp_path: Path) -> None:
    """While the last entries are delivered, nothing is kept ready any more."""
    slow = SENDER + "\nimport time; time.sleep(1.5)"
    body = BODY.replace("attempt < 3", "attempt < 2")
    with supervised(tmp_path / "home", body, spare_command=spare(body), sender=slow) as job:
        result = job.end()
    assert (result["outcome"], result["left"]) == ("recovered", [])


def test_without_a_command_there_is_none(tmp_path: Path) -> None:
    """The default: each worker is started when it is needed."""
    body = BODY.replace("ready-{attempt}", "ran-{attempt}")
    with supervised(tmp_path / "home", body) as job:
        assert job.end()["outcome"] == "recovered"
    assert [(job.folder.path / f"ran-{n}").read_text() for n in (1, 2, 3)] == ["cold"] * 3
    assert not [entry for entry in job.entries("event") if entry["name"] == "warm_spare"]


def test_a_spare_that_dies_is_not_replaced_and_costs_nothing(tmp_path: Path) -> None:
    """What ended it would end the next one too; the worker is then started as without one."""
    dying = [
        sys.executable,
        "-c",
        SPARE.replace("line = sys.stdin", "sys.exit(3) #").replace(".close()", ".write(str(os.getpid()))"),
    ]
    body = BODY.replace("ready-{attempt}", "ready-1").replace(
        "    os.kill",
        "    while os.path.exists('/proc/' + (folder.path / 'ready-1').read_text()): time.sleep(0.01)\n    os.kill",
    )
    with supervised(tmp_path / "home", body, spare_command=dying) as job:
        assert job.end()["outcome"] == "recovered"
    assert (job.folder.path / "ran-3").read_text() == "cold"
    assert not (job.folder.path / "ready-2").exists()


def test_a_spare_killed_by_somebody_is_noticed(tmp_path: Path) -> None:
    """A kill of worker and spare at once ends in a cold start."""
    body = BODY.replace("attempt < 3", "attempt < 2").replace(
        "os.kill(os.getpid()", "os.kill(int((folder.path / 'spare').read_text()), signal.SIGKILL); os.kill(os.getpid()"
    )
    named = SPARE.replace("line =", "open(ready[:-6] + 'spare', 'w').write(str(os.getpid())) ; line =").replace(
        'open(ready + str(number), "w").close()', ""
    )
    named = named.replace("line = sys", 'open(ready + "1", "w").close(); line = sys')
    with supervised(tmp_path / "home", body, spare_command=[sys.executable, "-c", named + WORKER + body]) as job:
        assert job.end()["outcome"] == "recovered"
    assert (job.folder.path / "ran-2").read_text() == "cold"


def test_where_memory_ran_out_no_spare_is_kept(tmp_path: Path) -> None:
    """Its memory is needed: the one that was there is ended, and the worker is started cold."""
    body = """
(folder.path / f"ran-{attempt}").write_text(sys.argv[1] if len(sys.argv) > 1 else "cold")
begin(); journal.append("mark", durable=True, mark="stepped", at=time.time(), attempt=attempt)
if attempt == 1:
    while not (folder.path / "ready-1").exists(): time.sleep(0.01)
    journal.append("fault", attempt=1, number=1, fault={"exception": "MemoryError"}, failure_class="host_oom",
                   failure_domain="workload", hint="", in_place=False, memory={})
    journal.append("decision", durable=True, attempt=1, number=1, verdict="continue", settings={}, actions=[], delay=0,
                   failure_class="host_oom", rung=0, opens_attempt=True, text="fake", basis="first")
    end("FAILED"); sys.exit(76)
end()
"""
    with supervised(tmp_path / "home", body, spare_command=spare(body)) as job:
        result = job.end()
    assert (result["outcome"], result["left"]) == ("recovered", [])
    assert (job.folder.path / "ran-2").read_text() == "cold"
    assert not (job.folder.path / "ready-2").exists()


def test_a_spare_does_not_outlive_its_supervisor(tmp_path: Path) -> None:
    """When the supervisor is killed, so is what it kept ready."""
    named = SPARE.replace("line =", "open(ready[:-6] + 'spare', 'w').write(str(os.getpid())) ; line =")
    body = BODY.replace("ready-{attempt}", "never")
    with supervised(tmp_path / "home", body, spare_command=[sys.executable, "-c", named]) as job:
        job.marked("ready-1")
        path = job.marked("spare")
        pid = int(eventually(lambda: path.read_text() or None))
        os.kill(job.process.pid, signal.SIGKILL)
        eventually(lambda: None if is_alive(pid) else True)
