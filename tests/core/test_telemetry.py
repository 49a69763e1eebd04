"""Memory of this process and machine: readings, the monitor, high-water marks, the measuring decorator."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience import telemetry
from mlflow_resilience.telemetry.allocator import allocator_memory
from mlflow_resilience.telemetry.visible import chosen

ROOT = Path(__file__).parents[2]


def fresh(code: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", "import json, sys\n" + code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_imports_neither_tensorflow_nor_mlflow() -> None:
    code = """
from mlflow_resilience import telemetry
telemetry.snapshot(), telemetry.environment()
print(json.dumps([name for name in ("tensorflow", "keras", "mlflow", "numpy") if name in sys.modules]))
"""
    assert fresh(code) == []


def test_snapshot_is_plain_json_with_memory_of_process_and_host() -> None:
    found = json.loads(json.dumps(telemetry.snapshot()))
    assert 5 < found["worker_rss_mb"] <= found["process_rss_mb"] + 1
    assert 0 < found["host_available_mb"] < found["host_total_mb"]


def _hold(ready: Any, done: Any) -> None:
    block = bytearray(80_000_000)
    ready.set()
    done.wait(30)
    del block


def test_children_count_in_the_tree() -> None:
    """A child's memory is in the tree and not in the worker's own."""
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    child = context.Process(target=_hold, args=(ready, done), daemon=True)
    child.start()
    try:
        assert ready.wait(30)
        found = telemetry.snapshot()
        assert found["process_rss_mb"] - found["worker_rss_mb"] > 80
    finally:
        done.set()
        child.join()


def test_a_child_with_a_session_of_its_own_is_no_part_of_the_tree() -> None:
    code = "x = bytearray(80_000_000); print(1, flush=True); input()"
    before = telemetry.snapshot()
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    with child:
        assert child.stdout and child.stdout.readline() == b"1\n"
        found = telemetry.snapshot()
        others = [each["process_rss_mb"] - each["worker_rss_mb"] for each in (before, found)]
        assert others[1] - others[0] < 60  # this process has other children while other tests run
        child.communicate(b"\n")


def test_environment_names_versions_without_importing() -> None:
    found = json.loads(json.dumps(telemetry.environment()))
    assert found["versions"]["mlflow"]
    assert found["pid"] == os.getpid()
    assert found["cores"] >= found["usable_cores"] >= 1
    assert found["cpu"] and found["python"].startswith("3.")


# --- the monitor


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def reading(rss: float, available: float = 500.0) -> dict[str, Any]:
    return {
        "process_rss_mb": rss,
        "worker_rss_mb": rss,
        "host_available_mb": available,
        "tf_peak_mb": rss * 2,
        "gpus": [{"index": 0, "used_mb": rss + 1, "total_mb": 1000.0}, {"index": 1, "problem": "lost"}],
    }


def test_monitor_emits_the_contract_s_keys_once_a_step() -> None:
    """Steps are whole seconds since the job started; a second reading within one is not sent."""
    points: list[telemetry.Point] = []
    clock = Clock(1000.0)
    monitor = telemetry.Monitor(points.extend, clock=clock, read=lambda: reading(10.0))
    for now in (1000.2, 1000.9, 1001.1, 1000.5, 1004.0):
        clock.now = now
        monitor.sample()
    assert {key for key, *_ in points} == {
        "memory/process_rss_mb",
        "memory/host_available_mb",
        "memory/tf_peak_mb",
        "memory/gpu_0_used_mb",
        "memory/gpu_0_total_mb",
    }
    assert [(step, ms) for key, step, _, ms in points if key == "memory/tf_peak_mb"] == [
        (0, 1000200),
        (1, 1001100),
        (4, 1004000),
    ]


def test_two_monitors_of_one_job_never_share_a_step() -> None:
    """The second process begins within the second in which the first one died."""
    points: list[telemetry.Point] = []
    clock = Clock(1007.1)
    first = telemetry.Monitor(points.extend, started=1000.0, clock=clock, read=lambda: reading(1.0))
    clock.now = 1008.2
    first.sample()
    clock.now = 1008.4
    second = telemetry.Monitor(points.extend, started=1000.0, clock=clock, read=lambda: reading(1.0))
    second.sample()
    clock.now = 1009.4
    second.sample()
    steps = [step for key, step, *_ in points if key == "memory/process_rss_mb"]
    assert steps == [8, 9]


def test_monitor_thread_reads_until_stopped() -> None:
    points: list[telemetry.Point] = []
    with telemetry.Monitor(points.extend, interval_seconds=0.05) as monitor:
        time.sleep(1.3)
    count = len(points)
    time.sleep(0.15)
    assert len(points) == count
    assert sorted({step for _, step, *_ in points}) == [0, 1]
    monitor.stop()  # twice is harmless


def test_a_sink_that_raises_is_said_once_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def sink(_: list[telemetry.Point]) -> None:
        raise OSError("no room")

    clock = Clock(0.0)

    def read() -> dict[str, Any]:
        clock.now += 1
        return reading(clock.now)

    with (
        caplog.at_level(logging.WARNING),
        telemetry.Monitor(sink, clock=clock, read=read, interval_seconds=0.01) as monitor,
    ):
        time.sleep(0.2)
    assert [record.message for record in caplog.records] == ["memory was not recorded: OSError: no room"]
    assert monitor.high_water()["tf_peak_mb"] > 2


def test_high_water_marks_since_the_last_reset() -> None:
    """The highest of each figure, the lowest of what the host has left; a snapshot counts too."""
    values = iter([reading(1e6, 90), reading(3e6, 70), reading(2e6, 80), reading(4.0, 60)])
    monitor = telemetry.Monitor(lambda _: None, read=lambda: next(values))
    monitor.sample()
    monitor.sample()
    assert monitor.snapshot()["high_water"] == {
        "process_rss_mb": 3e6,
        "worker_rss_mb": 3e6,
        "host_available_mb": 70,
        "tf_peak_mb": 6e6,
        "gpu_0_used_mb": 3e6 + 1,
    }
    monitor.reset_high_water()
    assert monitor.high_water() == {}
    monitor.sample()
    assert monitor.high_water()["tf_peak_mb"] == 8.0


def test_a_fault_has_the_marks_since_the_one_before() -> None:
    """Of the monitor that runs; without one, memory as it is now."""
    assert "high_water" not in telemetry.at_fault()
    values, seen = [100.0, 101.0, 102.0], threading.Event()
    with telemetry.Monitor(lambda _: seen.set(), read=lambda: reading(values.pop()), interval_seconds=1000.0):
        assert seen.wait(10)
        first, second = telemetry.at_fault(), telemetry.at_fault()
    assert first["high_water"]["tf_peak_mb"] == 204.0
    assert second["high_water"]["tf_peak_mb"] == 200.0
    assert "high_water" not in telemetry.at_fault()


def test_a_spike_between_two_readings_is_in_the_high_water_mark() -> None:
    """The kernel keeps the peak of the process, though no reading saw it."""
    code = """
from mlflow_resilience import telemetry
monitor = telemetry.Monitor(lambda points: None)
monitor.sample()
block = bytearray(200_000_000)
del block
monitor.sample()
print(json.dumps([monitor.high_water(), telemetry.snapshot()["worker_rss_mb"]]))
"""
    marks, now = fresh(code)
    assert marks["worker_rss_mb"] - now > 150
    assert marks["process_rss_mb"] >= marks["worker_rss_mb"]


def test_a_reading_is_cheap() -> None:
    """Under 2 % of one core at one reading a second, on any machine."""
    telemetry.snapshot()
    began = time.process_time()
    for _ in range(10):
        telemetry.snapshot()
    assert (time.process_time() - began) / 10 < 0.1


# --- TensorFlow's allocator, told by a stand-in for its context


class Context:
    _initialized = True

    def list_logical_devices(self, kind: str) -> list[Any]:
        return [types.SimpleNamespace(name=f"/device:{kind}:{index}") for index in range(2)]

    def get_memory_info(self, name: str) -> dict[str, int]:
        assert name in ("GPU:0", "GPU:1")
        return {"current": 1_000_000, "peak": 3_000_000}


def stand_in(monkeypatch: pytest.MonkeyPatch, context: Any) -> None:
    module = types.SimpleNamespace(_context=context)
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", module)


def test_allocator_sums_over_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, Context())
    assert allocator_memory() == {"tf_current_mb": 2.0, "tf_peak_mb": 6.0}


def test_a_runtime_that_has_not_started_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking would start it, and take the GPU."""
    context = Context()
    context._initialized = False
    stand_in(monkeypatch, context)
    assert allocator_memory() == {}


def test_no_gpu_or_an_unknown_tensorflow_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoGpu(Context):
        def list_logical_devices(self, kind: str) -> list[Any]:
            return []

    class Other:
        _initialized = True

    for context in (NoGpu(), Other(), None):
        stand_in(monkeypatch, context)
        assert allocator_memory() == {}


# --- the decorator and the context manager


def test_measure_a_block() -> None:
    """A peak that is gone at the end, and what is kept."""
    code = """
from mlflow_resilience.telemetry import measure_memory
with measure_memory() as use:
    gone = bytearray(200_000_000)
    del gone
    kept = bytearray(50_000_000)
print(json.dumps([use.extra_mb, use.growth_mb, str(use)]))
"""
    extra, growth, text = fresh(code)
    assert 190 < extra < 240
    assert 45 < growth < 70
    assert text.startswith("block: peak ")


def test_measure_a_function(caplog: pytest.LogCaptureFixture) -> None:
    """The result passes through, the latest use stays on the function, a line is logged."""

    @telemetry.measure_memory
    def double(value: int) -> int:
        """Twice."""
        return value * 2

    with caplog.at_level(logging.INFO):
        assert double(4) == 8
    assert double.__doc__ == "Twice."
    assert double.memory.seconds >= 0  # type: ignore[attr-defined]
    assert "double: peak" in caplog.text


def test_measure_reports_also_after_an_exception() -> None:
    seen: list[telemetry.MemoryUse] = []

    @telemetry.measure_memory(report=seen.append, interval_seconds=0.001)
    def fail() -> None:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    assert [use.name.rpartition(".")[2] for use in seen] == ["fail"]
    assert seen[0].peak_mb >= seen[0].before_mb > 0


def test_a_shortened_identity_must_be_unique() -> None:
    assert chosen("GPU-1", ["GPU-11", "GPU-12"]) == []
    assert chosen("nonsense", ["GPU-11"]) == []
