"""GPUs through nvidia-ml-py and a small C library that has NVML's ABI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
ROOT = Path(__file__).parents[2]

READ = "from mlflow_resilience import telemetry; print(json.dumps(telemetry.snapshot()))"
ENVIRONMENT = "from mlflow_resilience import telemetry; print(json.dumps(telemetry.environment()))"
Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build a stand-in for the NVIDIA driver")
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", SOURCE], check=True)
    return folder


@pytest.fixture
def ask(driver: Path) -> Ask:
    def run(code: str, **settings: str) -> Any:
        environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
        environment |= {"LD_LIBRARY_PATH": str(driver), "PYTHONPATH": str(ROOT), **settings}
        done = subprocess.run(
            [sys.executable, "-c", "import json, os, pathlib\n" + code], env=environment, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        return json.loads(done.stdout)

    return run


def test_two_devices_are_read(ask: Ask) -> None:
    """Used, total, utilisation and our own share, which is absent where the driver lists none of ours."""
    assert ask(READ)["gpus"] == [
        {
            "index": 0,
            "name": "Fake A",
            "used_mb": 5000.0,
            "total_mb": 80000.0,
            "utilisation_percent": 37,
            "own_mb": 900.0,
        },
        {"index": 1, "name": "Fake B", "used_mb": 1000.0, "total_mb": 40000.0, "utilisation_percent": 0},
    ]


def test_environment_names_gpus_and_driver(ask: Ask) -> None:
    found = ask(ENVIRONMENT)
    assert found["gpus"] == ["Fake A", "Fake B"]
    assert found["gpu_driver"] == "570.00.fake"
    assert "gpu_problem" not in found


@pytest.mark.parametrize("mode", ["no_devices", "mismatch"])
def test_silence_without_devices(ask: Ask, mode: str) -> None:
    """A driver without devices, and one that does not fit its library, give no GPU and no noise."""
    assert "gpus" not in ask(READ, FAKE_NVML=mode)


def test_no_driver_at_all(ask: Ask, tmp_path: Path) -> None:
    assert "gpus" not in ask(READ, LD_LIBRARY_PATH=str(tmp_path))
    assert "gpu_problem" not in ask(ENVIRONMENT, LD_LIBRARY_PATH=str(tmp_path))


def test_a_driver_that_does_not_fit_is_named(ask: Ask) -> None:
    assert "LibRmVersionMismatch" in ask(ENVIRONMENT, FAKE_NVML="mismatch")["gpu_problem"]


def test_process_list_not_supported(ask: Ask) -> None:
    """The own share is unknown; all else is there."""
    first, _ = ask(READ, FAKE_NVML="no_processes")["gpus"]
    assert "own_mb" not in first
    assert first["used_mb"] == 5000.0


def test_an_older_driver_has_an_older_process_list(ask: Ask) -> None:
    assert ask(READ, FAKE_NVML="old")["gpus"][0]["own_mb"] == 900.0


def test_device_lost_in_mid_run(ask: Ask, tmp_path: Path) -> None:
    """The lost device says so, its gauges end, and the other one goes on."""
    code = """
from mlflow_resilience import telemetry
points = []
now = [100.0]
monitor = telemetry.Monitor(points.extend, clock=lambda: now[0])
monitor.sample()
pathlib.Path(os.environ["FAKE_NVML_LOST"]).touch()
now[0] += 1
monitor.sample()
print(json.dumps([points, telemetry.snapshot()["gpus"], monitor.high_water()]))
"""
    points, gpus, marks = ask(code, FAKE_NVML_LOST=str(tmp_path / "lost"))
    assert gpus[0]["used_mb"] == 5000.0
    assert gpus[1]["index"] == 1
    assert "GpuIsLost" in gpus[1]["problem"]
    steps = {key: [step for name, step, *_ in points if name == key] for key, *_ in points}
    assert steps["memory/gpu_0_used_mb"] == [0, 1]
    assert steps["memory/gpu_1_used_mb"] == steps["memory/gpu_1_total_mb"] == [0]
    assert marks["gpu_1_used_mb"] == 1000.0


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("0,1", ["Fake A", "Fake B"]),
        ("1", ["Fake B"]),
        ("1,0", ["Fake B", "Fake A"]),
        ("GPU-2222", ["Fake B"]),
        ("0,7,1", ["Fake A"]),
        ("0,0", []),
        ("", []),
        ("-1", []),
        ("MIG-33333333-0000-0000-0000-000000000000", ["Fake A MIG 1g.10gb"]),
        ("MIG-unknown", []),
    ],
)
def test_cuda_visible_devices(ask: Ask, setting: str, names: list[str]) -> None:
    """Only what CUDA would use, numbered as TensorFlow numbers it."""
    gpus = ask(READ, CUDA_VISIBLE_DEVICES=setting).get("gpus", [])
    assert [gpu["name"] for gpu in gpus] == names
    assert [gpu["index"] for gpu in gpus] == list(range(len(names)))


def test_a_partitioned_device_stands_for_its_first_instance(ask: Ask) -> None:
    """An instance has no utilisation of its own."""
    gpus = ask(READ, FAKE_NVML="mig")["gpus"]
    assert [gpu["total_mb"] for gpu in gpus] == [10000.0, 40000.0]
    assert "utilisation_percent" not in gpus[0]


def test_a_forked_child_opens_the_driver_itself(ask: Ask) -> None:
    code = """
from mlflow_resilience import telemetry
telemetry.snapshot()
if child := os.fork():
    os.waitpid(child, 0)
else:
    print(json.dumps(telemetry.snapshot()["gpus"][0]["own_mb"]), flush=True)
    os._exit(0)
"""
    assert ask(code) == 900.0


def check_gpu(**settings: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "check_gpu.py"
    environment = os.environ | settings
    return subprocess.run([sys.executable, script], env=environment, text=True, capture_output=True, timeout=120)


def test_check_gpu_says_in_a_line_that_there_is_none(tmp_path: Path) -> None:
    """Neither a failure nor a wait."""
    done = check_gpu(LD_LIBRARY_PATH=str(tmp_path), CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "there is no GPU to check: no NVIDIA driver reports one\n"


@pytest.mark.full
def test_check_gpu_reports_what_the_driver_lists_and_tensorflow_lacks(driver: Path) -> None:
    """A driver's devices that TensorFlow cannot use are a failure, and it says what to install."""
    done = check_gpu(LD_LIBRARY_PATH=str(driver), CUDA_VISIBLE_DEVICES="0,1")
    told, _, last = done.stdout.strip().rpartition("\n")
    assert json.loads(told)["machine"]["gpus"] == ["Fake A", "Fake B"]
    assert json.loads(told)["tensorflow"]["devices"] == []
    assert "tensorflow[and-cuda]" in last
    assert done.returncode == 1
