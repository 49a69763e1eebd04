"""Requests to stop, hangs and the death of the parent."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from mlflow_resilience.spool.process import is_alive
from tests.core.supervised import eventually, supervised

SAVES = """
def save(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as our workers do: what follows at once is the same request
    checkpoint(3); end("KILLED", 3); sys.exit(75)
signal.signal(signal.SIGTERM, save)
begin(); park()
"""
IGNORES = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
begin(); park()
"""


def test_a_request_to_stop_is_passed_on_once_and_the_job_ends_preempted(tmp_path: Path) -> None:
    worker = """
def save(*_):
    with open(folder.path / "signals", "a") as file: file.write("x")
    time.sleep(0.3); end("KILLED", 3); sys.exit(75)
signal.signal(signal.SIGTERM, save)
begin(); park()
"""
    with supervised(tmp_path / "home", worker) as job:
        job.marked("parked")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            os.kill(job.process.pid, number)
        result = job.end()
    assert (result["outcome"], result["exit_code"], result["left"]) == ("preempted", 75, [])
    assert (job.folder.path / "signals").read_text() == "x"
    assert [entry["status"] for entry in job.entries("attempt_ended")] == ["KILLED"]
    assert job.entries("fault") == []


def test_a_worker_that_ignores_the_request_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", IGNORES, grace=0.5) as job:
        job.marked("parked")
        os.kill(job.process.pid, signal.SIGTERM)
        result = job.end()
    assert (result["outcome"], result["exit_code"]) == ("preempted", 75)
    assert [event["name"] for event in job.entries("event")] == ["stop_asked", "grace_exceeded"]
    assert [entry["status"] for entry in job.entries("attempt_ended")] == ["KILLED"]


def test_an_attempt_whose_worker_had_no_word_is_said_to_have_ended_by_the_first_signal(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", IGNORES, grace=0.5) as job:
        job.marked("parked")
        os.kill(job.process.pid, signal.SIGINT)
        eventually(lambda: "asked to stop" in job.shown() or None)  # the order of two at one moment nobody can tell
        os.kill(job.process.pid, signal.SIGTERM)
        assert job.end()["exit_code"] == 75
    (fault,) = job.entries("fault")
    assert fault["failure_class"] == "interruption"
    assert (fault["fault"]["exception"], fault["fault"]["signal"]) == ("SIGINT", 2)
    assert [entry["status"] for entry in job.entries("attempt_ended")] == ["KILLED"]


LISTENS = """
from mlflow_resilience.stop import StopRequests
stop = StopRequests(passed_on=folder.read_stop)
with stop.listening():
    begin(); (folder.path / "parked").touch()
    while stop.asked is None: time.sleep(0.01)
(folder.path / "asked").write_text(stop.asked); end("KILLED", 0); sys.exit(75)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1, signal.SIGTERM])
def test_the_worker_knows_which_signal_came_to_the_supervisor(tmp_path: Path, number: signal.Signals) -> None:
    with supervised(tmp_path / "home", LISTENS) as job:
        job.marked("parked")
        os.kill(job.process.pid, number)
        assert job.end()["exit_code"] == 75
    assert (job.folder.path / "asked").read_text() == number.name


def test_a_second_request_ends_at_once(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", IGNORES, grace=600.0) as job:
        job.marked("parked")
        os.kill(job.process.pid, signal.SIGTERM)
        eventually(lambda: "asked to stop" in job.shown() or None)
        time.sleep(2.1)  # what comes sooner is the same request
        os.kill(job.process.pid, signal.SIGTERM)
        result = job.end()
    assert (result["outcome"], result["exit_code"]) == ("preempted", 75)


def test_a_signal_to_the_worker_alone_is_a_preemption_too(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", "begin(); park()") as job:
        job.marked("parked")
        os.kill(job.entries("attempt")[0]["pid"], signal.SIGTERM)
        result = job.end()
    assert (result["outcome"], result["exit_code"]) == ("preempted", 75)
    assert [fault["failure_class"] for fault in job.entries("fault")] == ["interruption"]


def test_the_process_that_trains_under_a_shell_is_the_one_that_is_asked(tmp_path: Path) -> None:
    worker = """
if "inner" not in sys.argv:
    sys.exit(subprocess.call([sys.executable, "-c", source, "inner"]))
def save(*_):
    end("KILLED", 3); sys.exit(75)
signal.signal(signal.SIGTERM, save)
begin(); beat(1); park()
"""
    source = "source = __import__('sys').orig_argv[2]\n"
    with supervised(tmp_path / "home", source + worker) as job:
        job.marked("parked")
        os.kill(job.process.pid, signal.SIGTERM)
        assert job.end()["exit_code"] == 75
    assert [entry["status"] for entry in job.entries("attempt_ended")] == ["KILLED"]


def test_a_request_while_waiting_to_start_again_ends_the_job(tmp_path: Path) -> None:
    worker = (
        'begin(); decide("continue", resumption="new_process", delay=600, basis="first"); end("FAILED"); sys.exit(76)'
    )
    with supervised(tmp_path / "home", worker) as job:
        eventually(lambda: job.entries("attempt_ended") or None)
        os.kill(job.process.pid, signal.SIGTERM)
        result = job.end()
    assert (result["outcome"], result["exit_code"]) == ("preempted", 75)


def test_the_death_of_the_parent_is_a_request_to_stop(tmp_path: Path) -> None:
    parent = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"]
    with supervised(tmp_path / "home", SAVES, with_parent=True, prefix=parent) as job:
        job.marked("parked")
        killed = time.time()
        os.kill(job.process.pid, signal.SIGKILL)
        ended = eventually(lambda: job.entries("job_ended") or None)[0]
    assert ended["outcome"] == "preempted"
    assert ended["time"] - killed < 2.0


def test_without_being_asked_to_it_outlives_its_parent(tmp_path: Path) -> None:
    parent = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"]
    worker = """
begin(); (folder.path / "begun").touch()
while not (folder.path / "go").exists(): time.sleep(0.01)
end()
"""
    with supervised(tmp_path / "home", worker, prefix=parent) as job:
        job.marked("begun")
        os.kill(job.process.pid, signal.SIGKILL)
        job.process.wait()
        (job.folder.path / "go").touch()
        ended = eventually(lambda: job.entries("job_ended") or None)[0]
    assert ended["outcome"] == "clean"


def test_a_worker_does_not_outlive_its_supervisor(tmp_path: Path) -> None:
    with supervised(tmp_path / "home", SAVES) as job:
        job.marked("parked")
        worker = job.entries("attempt")[0]["pid"]
        os.kill(job.process.pid, signal.SIGKILL)
        eventually(lambda: None if is_alive(worker) else True)
    assert [entry["status"] for entry in job.entries("attempt_ended")] == ["KILLED"]


QUICK = {"floors": {"step": 0.6}, "first_seconds": 0.6, "factor": 3.0}


def test_a_worker_that_stands_still_is_asked_for_its_stacks_and_replaced(tmp_path: Path) -> None:
    worker = """
import faulthandler
begin()
faulthandler.register(signal.SIGUSR2, open(folder.artifacts / f"stacks-{attempt:03d}.txt", "w"))
for step in range(1, 6): beat(step); time.sleep(0.02)
if attempt == 1:
    def stand_still(): time.sleep(600)
    stand_still()
end()
"""
    with supervised(tmp_path / "home", worker, limits=QUICK) as job:
        assert job.end()["outcome"] == "recovered"
    (fault,) = job.entries("fault")
    assert (fault["failure_class"], fault["fault"]["phase"]) == ("hang", "step")
    assert 0.6 < fault["fault"]["silent_seconds"] < 5
    assert fault["fault"]["position"]["global_step"] == 5
    (artifact,) = [entry for entry in job.entries("artifact") if entry["run"] == 1]
    assert "stand_still" in Path(artifact["path"]).read_text()


def test_a_save_that_does_not_end_is_a_hang_though_training_goes_on(tmp_path: Path) -> None:
    worker = """
begin()
writing = folder.checkpoints / f".writing-step-0000000003-{os.getpid()}"
writing.mkdir(); time.sleep(0.4); writing.rmdir()
for step in range(1, 4): beat(step); time.sleep(0.05)
if attempt == 1: writing.mkdir()
for step in range(4, 40 if attempt == 1 else 6): beat(step); time.sleep(0.2)
end()
"""
    limits = {"floors": {"step": 60.0, "checkpoint": 1.0}, "first_seconds": 60.0, "factor": 2.0}
    with supervised(tmp_path / "home", worker, limits=limits) as job:
        assert job.end()["outcome"] == "recovered"
    (fault,) = job.entries("fault")
    assert (fault["failure_class"], fault["fault"]["phase"]) == ("hang", "checkpoint")
    assert 1.0 < fault["fault"]["silent_seconds"] < 4.0


def test_a_stopped_worker_is_a_hang(tmp_path: Path) -> None:
    worker = """
begin(); beat(1)
if attempt == 1: os.kill(os.getpid(), signal.SIGSTOP)
end()
"""
    with supervised(tmp_path / "home", worker, limits=QUICK) as job:
        assert job.end()["outcome"] == "recovered"
    assert [fault["failure_class"] for fault in job.entries("fault")] == ["hang"]


def test_nothing_is_a_hang_that_never_gave_a_sign_or_is_in_a_phase_of_its_own(tmp_path: Path) -> None:
    worker = "begin(); time.sleep(1.0); beat(1, 'idle'); time.sleep(1.0); end()"
    with supervised(tmp_path / "home", worker, limits=QUICK) as job:
        assert job.end()["outcome"] == "clean"


def test_a_measured_save_tells_whether_the_grace_period_is_enough(tmp_path: Path) -> None:
    worker = """
begin()
journal.append("checkpoint", attempt=1, step=3, epoch=0, path="", digest="", bytes=0, stall_ms=100, write_ms=1900)
journal.append("model", durable=True, attempt=1, step=3, name="checkpoint", local_id="x")
while not (folder.path / "go").exists(): time.sleep(0.01)
end()
"""
    with supervised(tmp_path / "home", worker, grace=3.0) as job:
        told = eventually(lambda: [each for each in job.entries("event") if each["name"] == "grace_period"] or None)
        (job.folder.path / "go").touch()
        assert job.end()["outcome"] == "clean"
    assert "may be too short" in told[0]["text"]
    assert told[0]["data"]["needed_seconds"] >= 4.0


def test_a_nohup_start_ignores_the_hangup(tmp_path: Path) -> None:
    worker = """
begin(); (folder.path / "begun").touch()
while not (folder.path / "go").exists(): time.sleep(0.01)
end()
"""
    with supervised(tmp_path / "home", worker, prefix=["nohup"]) as job:
        job.marked("begun")
        os.kill(job.process.pid, signal.SIGHUP)
        (job.folder.path / "go").touch()
        assert job.end()["outcome"] == "clean"
