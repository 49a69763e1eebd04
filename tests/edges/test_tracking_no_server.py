"""No tracking server when a job starts: it trains, and MLflow has it later; or it fails at once, if that was asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_resilience import job as jobs
from mlflow_resilience.errors import TrackingError, UsageError
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.spool.folder import jobs as jobs_of
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.supervisor.delivery import UNREACHABLE, tracking_seconds
from tests.edges import tracking_tools as tools
from tests.edges.tracking_tools import ENVIRON, Server, until

NOBODY = "http://127.0.0.1:9"
MODEL = """
import numpy as np
from tensorflow import keras
import mlflow_resilience
x = np.ones((64, 4), "float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
"""
SCRIPTS = {
    "fit.py": MODEL + "mlflow_resilience.fit(model, x, x[:, :1], epochs=2, verbose=0)\n",
    "autolog.py": MODEL + "mlflow_resilience.autolog()\nmodel.fit(x, x[:, :1], epochs=2, verbose=0)\n",
    "run.py": MODEL.replace("import mlflow_resilience\n", "") + "model.fit(x, x[:, :1], epochs=2, verbose=0)\n",
}
OURS = [sys.executable, "-m", "mlflow_resilience.cli"]
WAYS = {
    "train": [*OURS, "train", "--epochs", "1", "--delivery-seconds", "0"],
    "run": [*OURS, "run", "--delivery-seconds", "0", "--", sys.executable, "run.py"],
    "fit": [sys.executable, "fit.py"],
    "autolog": [sys.executable, "autolog.py"],
}


def start(way: str, folder: Path, uri: str, **more: str) -> tuple[int, str, JobRecord]:
    """Run it to its end: the exit code, what it said, and what its journal says."""
    folder.mkdir()
    for name, text in SCRIPTS.items():
        (folder / name).write_text(text)
    settings = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_RESILIENCE_HOME": str(folder / "home")}
    environ = {**ENVIRON, "MLFLOW_RESILIENCE_SENDER_PATIENCE": "0", **settings, **more}
    done = subprocess.run(
        WAYS[way], cwd=folder, env=environ, capture_output=True, text=True, timeout=150, stdin=subprocess.DEVNULL
    )
    (job,) = jobs_of(folder / "home")
    return done.returncode, done.stdout + done.stderr, JobRecord.read(job.journal)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its address is known before it is there."""
    server = Server(tmp_path_factory.mktemp("later"))
    yield server
    if server.process is not None:
        server.kill()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_every_way_trains_without_a_server_and_is_created_in_it_later(server: Server, tmp_path: Path) -> None:
    """`train`, `run`, `fit` and `autolog`: the run identity is made here, and the run is made once."""
    for way in WAYS:
        code, said, record = start(way, tmp_path / way, server.uri)
        assert code == 0, said
        assert record.outcome == "clean" and record.attempts[-1].status == "FINISHED", said
        if way in ("train", "run"):
            assert "mlflow-resilience sync" in said or "is still being sent" in said, said
    server.start()
    for way in WAYS:
        environ = {**ENVIRON, "MLFLOW_RESILIENCE_HOME": str(tmp_path / way / "home")}
        (job,) = jobs_of(tmp_path / way / "home")
        until(lambda job=job: job.sender() is None, 60, "the job's own sender has given up")
        done = subprocess.run([*OURS, "sync"], env=environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout
        run_id = job.read_sender_state()["run_id"]
        assert tools.status(server.database, run_id) == "FINISHED"
        assert len(tools.steps(server.database, run_id, "loss")) == (1 if way == "train" else 2)
        found = tools.rows(server.database, "select count(*) from tags where value = ?", job.job_id)
        assert found == [(1,)], "the run was made twice"


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_fails_at_once_where_tracking_is_required(way: str, tmp_path: Path) -> None:
    """Before anything is trained, with one clear line."""
    settings = {"MLFLOW_RESILIENCE_REQUIRE_TRACKING": "true", "MLFLOW_RESILIENCE_TRACKING_SECONDS": "1"}
    code, said, record = start(way, tmp_path / "job", NOBODY, **settings)
    assert code == 1
    assert UNREACHABLE in said
    assert record.attempts == [] and record.outcome == "failed"


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that trains without a supervisor."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_RESILIENCE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_fit_that_requires_tracking(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast tier's sample of the above; and a setting that is no number."""
    monkeypatch.setenv("MLFLOW_RESILIENCE_REQUIRE_TRACKING", "true")
    monkeypatch.setenv("MLFLOW_RESILIENCE_TRACKING_SECONDS", "0.2")
    monkeypatch.setenv("MLFLOW_RESILIENCE_SENDER_PATIENCE", "0")
    with pytest.raises(TrackingError, match="out of reach"):
        jobs.begin({"tracking_uri": NOBODY, "params": {}})
    (job,) = jobs_of(alone)
    assert JobRecord.read(job.journal).outcome == "failed"
    assert job.owner() is None
    monkeypatch.setenv("MLFLOW_RESILIENCE_TRACKING_SECONDS", "soon")
    with pytest.raises(UsageError, match="TRACKING_SECONDS=soon"):
        tracking_seconds()


def test_the_sender_of_a_fit_is_started_again_when_it_dies(alone: Path, tmp_path: Path) -> None:
    """Beside a process without a supervisor too; it then delivers all, and ends by itself."""
    job = jobs.begin({"tracking_uri": f"sqlite:///{tmp_path}/mlflow.db", "params": {"epochs": "1"}})
    folder: JobFolder = job.folder
    first = int(until(lambda: (folder.sender() or {}).get("pid"), what="a sender"))
    os.kill(first, signal.SIGKILL)
    until(lambda: (folder.sender() or {}).get("pid") not in (None, first), 30, "another one")
    job.journal.append("points", attempt=1, points=[["loss", 1, 0.5, 5]])
    jobs.end(job, "clean", 0)
    until(lambda: folder.read_sender_state().get("state") == "done", 60, "all is delivered")
    run_id = folder.read_sender_state()["run_id"]
    assert tools.steps(tmp_path / "mlflow.db", run_id, "loss") == [1]
    assert tools.status(tmp_path / "mlflow.db", run_id) == "FINISHED"
