"""The default recipe: real files, a pipeline that repeats and resumes bit for bit, a model that learns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

FACTS = Path(__file__).with_name("digits_facts.py")
ROOT = Path(__file__).parents[2]


def start(what: str, cache: Path) -> subprocess.Popen[str]:
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen([sys.executable, str(FACTS), what], stdout=subprocess.PIPE, text=True, env=environ)


def facts(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate()
    assert process.returncode == 0
    told: dict[str, Any] = json.loads(output)
    return told


@pytest.mark.full
def test_the_pipeline_repeats_resumes_and_reads_real_files_written_once(tmp_path: Path) -> None:
    both = [start("pipeline", tmp_path) for _ in range(2)]  # at once, on an empty cache
    first, second = (facts(process) for process in both)
    assert first == second
    assert first.pop("steps") == 45
    assert all(first.values()), first
    folder = tmp_path / "mlflow_resilience" / "digits"
    assert sorted(path.name for path in folder.iterdir()) == [str(label) for label in range(10)]
    images = list(folder.glob("*/*.png"))
    assert len(images) == 1797
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in images)
    assert [path.name for path in folder.parent.iterdir()] == ["digits"], "nothing half written is left"


@pytest.mark.full
@pytest.mark.timeout(600)
def test_it_learns_within_a_minute_and_two_processes_agree_bit_for_bit(tmp_path: Path) -> None:
    begun = time.monotonic()
    first = facts(start("fitted", tmp_path))
    seconds = time.monotonic() - begun
    assert first["val_accuracy"][-1] >= 0.97
    assert seconds < 60
    assert facts(start("fitted", tmp_path))["weights"] == first["weights"]
