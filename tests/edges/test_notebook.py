"""`fit` in a real notebook's kernel: a fault is met, and what the cell shows is whole, with nothing of ours amiss."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.spool.folder import jobs
from mlflow_resilience.spool.record import JobRecord
from tests.edges.main_job import environ

pytestmark = [pytest.mark.full, pytest.mark.timeout(280)]

SETUP = """
import keras, numpy as np
import mlflow_resilience
from mlflow_resilience.testing import faults
keras.utils.set_random_seed(3)
x = np.random.rand(256, 8).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("adam", "mse")
"""
FIT = """
with faults("raise@20"):
    history = mlflow_resilience.fit(model, x, x.sum(axis=1), batch_size=16, epochs=3)
len(history.history["loss"])
"""
BUG = """
with faults("bug@20"):
    mlflow_resilience.fit(model, x, x.sum(axis=1), batch_size=16, epochs=3, verbose=0)
"""


class Kernel:
    """Cells are run, and what they show is kept."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.shown: list[dict[str, Any]] = []

    def run(self, code: str) -> dict[str, Any]:
        """The reply of one cell."""
        self.shown = []
        reply = self._client.execute_interactive(code, output_hook=self.shown.append, timeout=200)
        return dict(reply["content"])

    def text(self, name: str = "stdout") -> str:
        streams = (each["content"] for each in self.shown if each["msg_type"] == "stream")
        return "".join(each["text"] for each in streams if each["name"] == name)

    def result(self) -> str:
        (found,) = (each for each in self.shown if each["msg_type"] == "execute_result")
        return str(found["content"]["data"]["text/plain"])


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    manager = pytest.importorskip("jupyter_client.manager", reason="no kernel is installed (pip install ipykernel)")
    settings = environ(MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/mlflow.db", JUPYTER_PLATFORM_DIRS="1")
    started, client = manager.start_new_kernel(kernel_name="python3", cwd=str(tmp_path), env={**os.environ, **settings})
    yield Kernel(client)
    client.stop_channels()
    started.shutdown_kernel(now=True)


def test_a_cell_shows_each_fault_once_and_ends_well(kernel: Kernel, tmp_path: Path) -> None:
    """Keras's own bars, our lines on lines of their own, no traceback; then a fit that stops raises what was raised."""
    assert kernel.run(SETUP)["status"] == "ok"
    assert kernel.run(FIT)["status"] == "ok", kernel.shown
    assert kernel.result() == "3"
    lines = kernel.text().replace("\r", "\n").splitlines()
    ours = [line for line in lines if line.startswith("attempt ")]
    assert len(ours) == 2, lines
    assert ours[0].startswith("attempt 1: unknown (RuntimeError) in step 20")
    assert ours[1].startswith("attempt 2 goes on from step ")
    assert any("Epoch 3/3" in line for line in lines)
    assert "Traceback" not in kernel.text() + kernel.text("stderr")
    record = JobRecord.read(jobs(tmp_path / ".mlflow_resilience")[0].journal)
    assert (record.outcome, len(record.faults)) == ("recovered", 1)

    failed = kernel.run(BUG)
    assert failed["status"] == "error" and failed["ename"] in ("ValueError", "InvalidArgumentError")
    assert [line for line in kernel.text().splitlines() if line.startswith("hint: ")]
    assert "Exception ignored" not in kernel.text("stderr")
