"""The supervisor over fake workers that do the worst: real processes and signals, no TensorFlow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlflow_resilience.spool.process import is_alive
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.spool.restarts import PARTS
from tests.core.supervised import ROOT, SENDER, eventually, supervised


def test_a_worker_that_finishes_ends_the_job_clean(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", "begin(); print('hello'); end()") as job:
        result = job.end()
    assert (result["outcome"], result["exit_code"], result["delivered"]) == ("clean", 0, True)
    (ended,) = job.entries("job_ended")
    assert (ended["outcome"], ended["exit_code"]) == ("clean", 0)
    assert [entry["role"] for entry in job.entries("owner")] == ["supervisor"]
    assert "hello" in job.shown()
    assert result["left"] == []


def test_after_a_kill_the_next_worker_goes_on(tmp_path: Path) -> None:
    worker = """
begin(); reach(5 * attempt)
if attempt == 1: os.kill(os.getpid(), signal.SIGKILL)
end("FINISHED", 10)
"""
    with supervised(tmp_path / "home", worker) as job:
        result = job.end()
    assert (result["outcome"], result["exit_code"]) == ("recovered", 0)
    (fault,) = job.entries("fault")
    assert (fault["attempt"], fault["failure_class"]) == (1, "process_death")
    assert (fault["fault"]["exception"], fault["fault"]["signal"]) == ("SIGKILL", 9)
    assert fault["fault"]["position"]["global_step"] == 5
    (decision,) = job.entries("decision")
    assert (decision["verdict"], decision["resumption"], decision["basis"]) == ("continue", "new_process", "first")
    assert [entry["status"] for entry in job.entries("attempt_ended")] == ["FAILED", "FINISHED"]


def test_a_death_is_detected_at_once(tmp_path: Path) -> None:
    worker = """
begin()
if attempt == 1: park()
end()
"""
    with supervised(tmp_path / "home", worker) as job:
        job.marked("parked")
        (attempt,) = job.entries("attempt")
        killed = time.time()
        os.kill(attempt["pid"], signal.SIGKILL)
        assert job.end()["exit_code"] == 0
    (fault,) = job.entries("fault")
    assert fault["time"] - killed < 0.3


def test_the_workers_own_decision_for_a_new_process_is_followed(tmp_path: Path) -> None:
    worker = """
begin()
if attempt == 1:
    decide("continue", resumption="new_process", delay=0.1, basis="first"); end("FAILED"); sys.exit(76)
end()
"""
    with supervised(tmp_path / "home", worker) as job:
        assert job.end()["outcome"] == "recovered"
    assert len(job.entries("fault")) == 1, "the worker's fault is not judged again"
    assert [entry["attempt"] for entry in job.entries("attempt")] == [1, 2]


def test_the_workers_own_stop_is_followed(tmp_path: Path) -> None:
    worker = 'begin(); decide("stop", basis="stop_class", resumption=None); end("FAILED"); sys.exit(1)'
    with supervised(tmp_path / "home", worker) as job:
        result = job.end()
    assert (result["outcome"], result["exit_code"], result["text"]) == ("failed", 1, "as the worker said")


@pytest.mark.parametrize(("code", "outcome"), [(75, "preempted"), (2, "failed")])
def test_exit_codes_that_speak_for_themselves(tmp_path: Path, code: int, outcome: str) -> None:
    with supervised(tmp_path / "home", f"sys.exit({code})") as job:
        result = job.end()
    assert (result["outcome"], result["exit_code"]) == (outcome, code)
    assert job.entries("fault") == []


def test_a_crash_loop_stops_after_three_deaths_without_progress(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", "os.abort()") as job:
        result = job.end()
    assert (result["outcome"], result["exit_code"]) == ("failed", 1)
    assert [fault["fault"]["exception"] for fault in job.entries("fault")] == ["SIGABRT"] * 3
    assert "got no further" in result["text"]
    assert [entry["status"] for entry in job.entries("attempt_ended")] == ["FAILED"] * 3


def test_progress_between_deaths_counts(tmp_path: Path) -> None:
    worker = """
begin(attempt); reach(attempt)
if attempt < 6: os.kill(os.getpid(), signal.SIGKILL)
end()
"""
    with supervised(tmp_path / "home", worker) as job:
        assert job.end()["exit_code"] == 0
    assert len(job.entries("fault")) == 5


def test_the_ceiling_holds_whatever_the_progress(tmp_path: Path) -> None:
    worker = "begin(attempt); reach(attempt); os.kill(os.getpid(), signal.SIGKILL)"
    with supervised(tmp_path / "home", worker, max_attempts=4) as job:
        assert job.end()["exit_code"] == 1
    assert len(job.entries("fault")) == 4


def test_a_script_that_raises_is_judged_by_its_traceback(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", "raise NameError('layer')") as job:
        result = job.end()
    assert result["exit_code"] == 1
    (fault,) = job.entries("fault")
    assert (fault["fault"]["exception"], fault["failure_class"]) == ("NameError", "programming_error")
    assert fault["fault"]["traceback"].startswith("Traceback")


def test_what_cannot_be_started_is_wrong_usage(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", "", command=["/no/such/program"]) as job:
        result = job.end()
    assert result["exit_code"] == 2
    assert "/no/such/program: it cannot be started" in result["text"]


def test_a_flood_of_output_neither_blocks_nor_fills_the_disk(tmp_path: Path) -> None:
    """A hundred megabytes as fast as they are taken, half of them without an end of line."""
    worker = """
begin()
for _ in range(1000): os.write(1, (b"x" * 99 + b"\\n") * 500)
for _ in range(1000): os.write(1, b"y" * 50_000)
print("\\nthe end"); end()
"""
    with supervised(tmp_path / "home", worker) as job:
        assert job.end()["exit_code"] == 0
    kept = sum(path.stat().st_size for path in job.folder.path.glob("worker.log*"))
    assert kept < 10 << 20
    assert job.folder.worker_log.read_bytes().endswith(b"the end\n")


def test_a_double_fork_leaves_nothing_behind(tmp_path: Path) -> None:
    worker = """
begin()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (folder.path / "daemon").write_text(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not (folder.path / "daemon").exists(): time.sleep(0.01)
end()
"""
    with supervised(tmp_path / "home", worker) as job:
        result = job.end()
    assert result["exit_code"] == 0
    assert result["left"] == []
    assert not is_alive(int(job.marked("daemon").read_text()))


def test_a_grandchild_that_holds_pipe_and_lease_does_not_hold_up_the_next_worker(tmp_path: Path) -> None:
    """It has left the group and its parent is gone: it ends with the worker that it came from."""
    worker = """
from mlflow_resilience.spool.lease import Lease
begin()
lease = Lease.take(folder.path / "trainer", "trainer", wait=0.0)
if attempt == 1:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            (folder.path / "daemon").touch()
            time.sleep(600)
        os._exit(0)
    while not (folder.path / "daemon").exists(): time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
end() if lease is not None else sys.exit("the lease is held")
"""
    with supervised(tmp_path / "home", worker) as job:
        result = job.end()
    assert (result["outcome"], result["left"]) == ("recovered", [])
    died, again = job.entries("attempt")
    assert again["time"] - died["time"] < 5.0


def test_a_worker_that_is_killed_takes_its_group_with_it(tmp_path: Path) -> None:
    worker = """
begin()
if attempt == 1:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (folder.path / "child").write_text(str(child.pid))
    os.kill(os.getpid(), signal.SIGKILL)
end()
"""
    with supervised(tmp_path / "home", worker) as job:
        assert job.end()["exit_code"] == 0
    assert not is_alive(int(job.marked("child").read_text()))


def test_a_sender_that_dies_is_started_again(tmp_path: Path) -> None:
    sender = (
        """
import sys, pathlib
mark = pathlib.Path(sys.argv[1]) / "sender-was-here"
if not mark.exists(): mark.touch(); sys.exit(1)
(pathlib.Path(sys.argv[1]) / "second-sender").touch()
"""
        + SENDER
    )
    worker = """
begin()
while not (folder.path / "second-sender").exists(): time.sleep(0.01)
end()
"""
    with supervised(tmp_path / "home", worker, sender=sender) as job:
        result = job.end()
    assert (result["exit_code"], result["delivered"]) == (0, True)


def test_a_sender_that_cannot_deliver_is_waited_for_only_so_long(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", "end()", sender="import time; time.sleep(600)", sender_wait=0.3) as job:
        result = job.end()
        (sender,) = result["left"]
        os.kill(sender, signal.SIGKILL)
    assert (result["exit_code"], result["delivered"]) == (0, False)


INVALID = """
import json, pathlib, sys, time
from mlflow_resilience.spool import atomic
path = pathlib.Path(sys.argv[1]) / "sender.json"
atomic.write_json(path, {"state": "invalid", "message": "no such store"})
"""


def test_a_store_that_cannot_be_opened_stops_the_worker(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", "park()", sender=INVALID) as job:
        result = job.end()
    assert (result["outcome"], result["exit_code"], result["text"]) == ("failed", 2, "no such store")
    assert job.entries("fault") == []


def test_required_tracking_that_does_not_answer_ends_the_job_before_training(tmp_path: Path) -> None:
    sender = "import time; time.sleep(600)"
    with supervised(tmp_path / "home", "begin()", sender=sender, require_tracking=True, sender_wait=0.1) as job:
        result = job.end()
        os.kill(result["left"][0], signal.SIGKILL)
    assert result["exit_code"] == 1
    assert job.entries("attempt") == []


def test_a_recipe_with_parameters_of_its_own_is_recovered_no_more_than_those_allow(tmp_path: Path) -> None:
    worker = """
journal.append("job", durable=True, config={"recover": False, "max_attempts": 10})
begin(); os.kill(os.getpid(), signal.SIGKILL)
"""
    with supervised(tmp_path / "home", worker) as job:
        assert job.end()["exit_code"] == 1
    assert [entry["basis"] for entry in job.entries("decision")] == ["recovery_off"]


def test_what_a_stopped_job_had_done_beyond_its_checkpoint_is_lost(tmp_path: Path) -> None:
    worker = """
begin(); checkpoint(3); reach(10)
decide("stop", basis="stop_class", resumption=None); end("FAILED"); sys.exit(1)
"""
    with supervised(tmp_path / "home", worker) as job:
        assert job.end()["exit_code"] == 1
    assert [(entry["attempt"], entry["steps"]) for entry in job.entries("lost")] == [(1, 7)]


def test_the_parts_of_a_restart_sum_to_the_gap(tmp_path: Path) -> None:
    worker = """
from mlflow_resilience.spool.marks import Marks
marks = Marks(journal, attempt)
marks.tell("running"); begin()
if attempt == 1: park()
for mark in ("imported", "restoring"): time.sleep(0.02); marks.tell(mark)
marks.beat("trace"); time.sleep(0.02); marks.beat("data")
(folder.path / "stepped").write_text(str(time.time())); end()
"""
    with supervised(tmp_path / "home", worker) as job:
        job.marked("parked")
        killed = time.time()
        os.kill(job.entries("attempt")[0]["pid"], signal.SIGKILL)
        assert job.end()["outcome"] == "recovered"
    first, restart = JobRecord.read(job.folder.journal).restarts.all
    assert (first.attempt, first.done, restart.attempt, restart.done) == (0, False, 1, True)
    assert tuple(restart.parts) == PARTS
    gap = float((job.folder.path / "stepped").read_text()) - killed
    assert restart.seconds == pytest.approx(gap, abs=0.1)
    assert restart.parts["detection"] < 0.3


def test_a_command_that_knows_nothing_of_attempts_is_one_each_start(tmp_path: Path) -> None:
    worker = """
mark = folder.path / "mark"
if not mark.exists(): mark.touch(); os.kill(os.getpid(), signal.SIGKILL)
"""
    with supervised(tmp_path / "home", worker, opens_attempts=True) as job:
        assert job.end()["outcome"] == "recovered"
    assert [entry["status"] for entry in job.entries("attempt_ended")] == ["FAILED", "FINISHED"]


def test_noise_stays_off_the_terminal_but_in_the_log(tmp_path: Path) -> None:
    noise = "2026-01-01 10:00:00.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on."
    with supervised(tmp_path / "home", f"print({noise!r}); print('mine')") as job:
        job.end()
    assert job.shown().startswith("mine")
    assert "oneDNN" in job.folder.worker_log.read_text()


def peak_memory(folder: Path) -> int:
    """The supervisor's peak memory in kB once its worker runs."""
    worker = "import pathlib, time; pathlib.Path('up').touch(); time.sleep(600)"
    command = [sys.executable, "-m", "mlflow_resilience.cli", "run", "--delivery-seconds", "0", "--", sys.executable]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "MLFLOW_RESILIENCE_HOME": str(folder / "home")}
    process = subprocess.Popen([*command, "-c", worker], cwd=folder, env=environ, stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: (folder / "up").exists() or None)
        status = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.terminate()
        process.wait()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def test_the_command_itself_is_small(tmp_path: Path) -> None:
    """A supervisor stays under 60 MB. (How soon it starts is measured by scripts/bench start.)"""
    assert peak_memory(tmp_path) < 60 << 10
