"""Steps that several processes do together, over TensorFlow's own collectives: without Ray."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ray import divided_fit

pytestmark = pytest.mark.full  # three processes that import TensorFlow

ROOT = Path(__file__).parents[2]
SECONDS = 120


def _free_address() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listening.getsockname()[1]}"


def _start(path: Path, rank: int, addresses: list[str]) -> subprocess.Popen[bytes]:
    task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    cluster = {"TF_CONFIG": json.dumps(task)} if len(addresses) > 1 else {}
    command = [sys.executable, divided_fit.__file__, str(rank), str(len(addresses)), str(path)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1", **cluster}
    return subprocess.Popen(command, env=environ)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process made of a training, and what each of two made of the same together."""
    folder = tmp_path_factory.mktemp("divided")
    ranks = {"one": (0, [_free_address()])} | dict(
        zip(("chief", "other"), enumerate([[_free_address(), _free_address()]] * 2), strict=True)
    )
    made: dict[str, Any] = {}
    for names in (["one"], ["chief", "other"]):
        processes = [_start(folder / f"{name}.npz", *ranks[name]) for name in names]
        assert [process.wait(SECONDS) for process in processes] == [0] * len(names)
        made |= {name: dict(np.load(folder / f"{name}.npz")) for name in names}
    return made


def test_two_ranks_train_to_the_weights_of_one(results: dict[str, Any]) -> None:
    """At the same effective batch, with a batch of one record, sample weights, a penalty and clipping by norm."""
    one, chief = results["one"], results["chief"]
    weights = [name for name in one if name.startswith("weights_")]
    assert weights
    assert max(float(np.abs(one[name] - chief[name]).max()) for name in weights) <= 1e-5


def test_the_curve_is_that_of_the_whole_batch(results: dict[str, Any]) -> None:
    """Loss and accuracy count the records of both ranks."""
    one, chief = results["one"], results["chief"]
    assert np.allclose(one["history_loss"], chief["history_loss"], atol=1e-5)
    assert np.allclose(one["history_accuracy"], chief["history_accuracy"], atol=1e-5)


def test_the_ranks_stay_equal_to_the_last_bit(results: dict[str, Any]) -> None:
    """So the state of the chief is that of every rank."""
    chief, other = results["chief"], results["other"]
    assert all(np.array_equal(chief[name], other[name]) for name in chief)
