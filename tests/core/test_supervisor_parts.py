"""The supervisor's parts that need no process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mlflow_resilience.supervisor import kernel, parents
from mlflow_resilience.supervisor.death import Ended
from mlflow_resilience.supervisor.hang import FLOORS, Beat, HangWatch, Limits, parse_beat
from mlflow_resilience.supervisor.output import OutputLog, is_noise
from mlflow_resilience.supervisor.saving import SaveWatch
from mlflow_resilience.supervisor.signals import StopRequest


def raw(step: int, phase: str = "step") -> bytes:
    return json.dumps({"pid": 1, "phase": phase, "step": step, "time": 0.0}).encode().ljust(256)


def test_the_limit_is_learned_from_the_longest_silence_with_a_factor_and_a_floor() -> None:
    limits = Limits(floors={"step": 5.0}, factor=20.0, first_seconds=600.0)
    assert limits.of("step", None) == 600.0
    assert limits.of("step", 0.01) == 5.0
    assert limits.of("step", 2.0) == 40.0
    assert limits.of("idle", 2.0) is None
    assert Limits(enabled=False).of("step", 2.0) is None


def test_silence_is_a_hang_only_beyond_what_this_job_has_shown() -> None:
    watch = HangWatch(Limits(floors={"step": 1.0}, factor=3.0, first_seconds=10.0))
    watch.begin(raw(7), now=0.0)
    assert watch.see(raw(7), now=4.0) is None, "the last worker's heartbeat says nothing of this one"
    assert watch.see(raw(1), now=5.0) is None
    assert watch.see(raw(1), now=9.0) is None, "the first of a phase may take long"
    assert watch.see(raw(2), now=9.5) is None
    assert watch.see(raw(2), now=14.0) is None
    assert watch.see(raw(3), now=14.2) is None
    assert watch.see(raw(3), now=19.0) is None
    for now in range(20, 28):
        assert watch.see(raw(3), now=float(now)) is None, "three times 4.7 seconds are not over"
    assert watch.see(raw(3), now=29.0) == pytest.approx(14.8)


def test_the_time_in_which_we_did_not_run_ourselves_does_not_count() -> None:
    watch = HangWatch(Limits(floors={"step": 1.0}, factor=1.0, first_seconds=1.0))
    watch.begin(b"", now=0.0)
    watch.see(raw(1), now=0.2)
    assert watch.see(raw(1), now=3600.0) is None
    assert watch.see(raw(1), now=3601.5) == pytest.approx(1.5)


def test_a_halted_worker_is_a_hang_in_any_phase() -> None:
    watch = HangWatch(Limits(first_seconds=600.0, halted_seconds=3.0))
    watch.begin(b"", now=0.0)
    for now in range(1, 4):
        assert watch.see(b"", now=float(now), halted=True) is None
    assert watch.see(b"", now=4.0, halted=True) == pytest.approx(4.0)
    assert watch.see(b"", now=5.0) is None, "it goes on"
    assert watch.see(b"", now=6.0, halted=True) is None


def test_what_takes_long_in_its_nature_is_no_hang() -> None:
    """With the limits as they are: a long first compile, a slow end of an epoch, the making of data."""
    for phase, silence in {"trace": 590.0, "epoch_end": 110.0, "build": 3500.0, "data": 55.0}.items():
        watch = HangWatch(Limits())
        watch.begin(b"", now=0.0)
        watch.see(raw(1, phase), now=0.2)
        watch.see(raw(2, phase), now=0.4)  # this phase's usual time is known now
        looks = [watch.see(raw(2, phase), now=0.4 + second) for second in range(1, int(silence))]
        assert looks == [None] * len(looks), phase
    watch = HangWatch(Limits())
    watch.begin(b"", now=0.0)
    for step in range(1, 4):
        watch.see(raw(step), now=float(step))
    looks = [watch.see(raw(3), now=3.0 + second) for second in range(1, 35)]
    assert looks[29] is None and looks[30] == pytest.approx(31.0)


def test_slow_data_that_does_come_is_said_once_and_only_where_it_was_faster_before() -> None:
    watch = HangWatch(Limits())
    watch.begin(b"", now=0.0)

    def wait_for_data(step: int, begun: float, seconds: float) -> None:
        watch.see(raw(step, "data"), now=begun)
        for now in range(1, int(seconds)):
            watch.see(raw(step, "data"), now=begun + now)
        watch.see(raw(step, "step"), now=begun + seconds)

    wait_for_data(0, 0.2, 4.0)
    assert watch.slow_data() is None, "the first wait of a worker fills the buffers"
    wait_for_data(1, 5.0, 0.3)
    wait_for_data(2, 6.0, 5.0)
    slow = watch.slow_data()
    assert slow is not None
    assert (slow.step, round(slow.seconds, 3), round(slow.longest, 3)) == (2, 5.0, 0.3)
    assert watch.slow_data() is None
    wait_for_data(3, 20.0, 6.0)
    assert watch.slow_data() is None, "it is not much slower than it has been"


def test_a_save_may_last_as_long_as_saves_have_lasted(tmp_path: Path) -> None:
    watch = SaveWatch(Limits(floors={"checkpoint": 2.0}, factor=3.0, first_seconds=30.0), tmp_path)
    watch.begin(0.0)

    def saves(begun: int, seconds: int) -> list[float | None]:
        writing = tmp_path / "fit-001" / ".writing-step-7-1"
        writing.mkdir(parents=True, exist_ok=True)
        looks = [watch.see(float(begun + second)) for second in range(seconds + 1)]
        writing.rmdir()
        watch.see(float(begun + seconds))
        return looks

    assert saves(1, 20) == [None] * 21, "nobody knows yet how long it takes"
    assert saves(30, 60)[-1] is None, "three times as long is none yet"
    assert saves(100, 181)[-1] == 181.0, "it is longer than three times sixty seconds"
    assert watch.see(1000.0) is None
    (tmp_path / ".writing-step-9-1").mkdir()
    watch.see(1001.0)
    assert watch.see(5000.0) is None, "a machine that was suspended"


def test_checkpoints_that_come_and_go_meanwhile_are_no_error(tmp_path: Path) -> None:
    """A worker removes what it need not keep, at the moment when the supervisor looks."""
    watch, over = SaveWatch(Limits(), tmp_path), threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            for number in range(20):
                (tmp_path / f"step-{number}").mkdir()
            for number in range(20):
                (tmp_path / f"step-{number}").rmdir()

    worker = threading.Thread(target=come_and_go)
    worker.start()
    try:
        seen = [watch.see(float(now)) for now in range(2000)]
    finally:
        over.set()
        worker.join()
    assert seen == [None] * 2000


def test_a_new_worker_keeps_what_was_learned() -> None:
    watch = HangWatch(Limits(floors={"step": 1.0}, factor=2.0, first_seconds=50.0))
    watch.begin(b"", now=0.0)
    watch.see(raw(1), now=1.0)
    watch.see(raw(2), now=2.0)
    watch.begin(raw(2), now=3.0)
    watch.see(raw(1), now=4.0)
    assert watch.see(raw(1), now=6.5) == pytest.approx(2.5)


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b'{"pid": 1}', b"\0" * 256])
def test_a_heartbeat_in_the_making_is_none(content: bytes) -> None:
    assert parse_beat(content) is None


def test_every_phase_of_a_worker_has_a_floor() -> None:
    assert {"start", "restore", "trace", "data", "step", "validation", "checkpoint"} <= set(FLOORS)


def test_the_kernels_count_of_kills_is_read_from_either_version(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "memory" / "job").mkdir(parents=True)
    (one / "memory" / "job" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    own.write_text("9:name=systemd:/\n4:memory:/job\n0::/\n")
    assert kernel.oom_kills(own, one) == 3
    two.mkdir()
    (two / "memory.events").write_text("low 0\noom 2\noom_kill 1\noom_group_kill 0\n")
    own.write_text("0::/not/seen/in/this/container\n")
    assert kernel.oom_kills(own, two) == 1
    assert kernel.oom_kills(own, tmp_path) is None
    assert kernel.oom_kills(tmp_path / "missing", two) is None


def test_facts_of_a_death() -> None:
    killed = Ended(code=-9, kernel_oom=True).fault(40, 2, begun=True)
    assert (killed.exception, killed.signal, killed.kernel_oom, killed.global_step) == ("SIGKILL", 9, True, 40)
    hung = Ended(code=-9, silent_seconds=31.0, beat=Beat(1, "data", 44)).fault(40, 2, begun=True)
    assert (hung.exception, hung.signal, hung.phase, hung.global_step) == ("Hang", None, "data", 44)
    left = Ended(code=3).fault(0, 0, begun=False)
    assert (left.exception, left.exit_code, left.phase) == ("SystemExit", 3, "start")
    told = "Traceback (most recent call last):\n  File ...\nnumpy.linalg.LinAlgError: Singular matrix\nbye"
    raised = Ended(code=1, tail=told).fault(0, 0, begun=False)
    assert (raised.exception, raised.message) == ("LinAlgError", "Singular matrix")


def test_signals_close_together_are_one_request() -> None:
    request = StopRequest()
    assert [request.ask("SIGINT", 10.0), request.ask("SIGTERM", 10.25), request.ask("SIGTERM", 12.0)] == [
        "first",
        "same",
        "same",
    ]
    assert request.ask("SIGINT", 12.1) == "again"
    assert request.reason == "SIGINT"


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-01 10:00:00.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] A binary ...",
        "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the flags.",
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "I0000 00:00:1796066426.763775   10840 cudart_stub.cc:31] Could not find cuda drivers on your machine.",
        "E0000 00:00:1796066434.233917   10840 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error",
    ],
)
def test_what_tensorflow_says_at_its_start_is_noise(line: str) -> None:
    assert is_noise(line)


@pytest.mark.parametrize(
    "line", ["Epoch 1/10", "WARNING: my own", "2026-01-01 done", "F0000 00:00:1.0 1 a.cc:1] Check failed: x", ""]
)
def test_the_users_own_lines_are_not(line: str) -> None:
    assert not is_noise(line)


def test_the_log_is_bounded(tmp_path: Path) -> None:
    log = OutputLog(tmp_path / "worker.log", kept_bytes=1000)
    for _ in range(100):
        log.write(b"y" * 100)
    log.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2400


def test_callers_behind_a_shell_are_found() -> None:
    """mlflow run starts `bash -c`, which may stay as our parent."""
    script = "from mlflow_resilience.supervisor.parents import nearest; print([pid for pid, _ in nearest()])"
    shell = ["bash", "-c", f'"{sys.executable}" -c "{script}"; true']
    output = subprocess.run(shell, check=True, capture_output=True, text=True).stdout
    assert os.getpid() in json.loads(output)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["python", "/venv/bin/mlflow", "run", "."], True),
        (["python", "-m", "mlflow", "run", ".", "-P", "epochs=2"], True),
        (["python", "/venv/bin/mlflow", "server"], False),
        (["python", "run", "mlflow"], False),
        ([], False),
    ],
)
def test_mlflow_run_is_known_by_its_arguments(arguments: list[str], expected: bool) -> None:
    assert parents._is_mlflow_run(arguments) is expected


def test_a_parent_that_is_gone_is_lost() -> None:
    process = subprocess.Popen(["sleep", "600"])
    from mlflow_resilience.spool.process import start_ticks

    parent = (process.pid, start_ticks(process.pid) or 0)
    assert not parents.lost([parent])
    process.kill()
    process.wait()
    assert parents.lost([parent])
    assert not parents.lost([])
