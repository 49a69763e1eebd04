"""Server and sender killed at random during a job: in the end the store holds each thing once, and whole."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.tracking import sync
from tests.edges import main_job
from tests.edges import tracking_tools as tools
from tests.edges.ordeal import Ordeal, Outage
from tests.edges.postgres import Postgres
from tests.edges.tracking_tools import ENVIRON, Job, Server, until


def started(server: Server) -> Iterator[Server]:
    server.start()
    yield server
    if server.process is not None and server.process.poll() is None:
        server.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """On SQLite."""
    yield from started(Server(tmp_path_factory.mktemp("server")))


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    postgres = Postgres()
    yield postgres
    postgres.remove()


@pytest.fixture(scope="module")
def team_server(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Server]:
    """On PostgreSQL, with an artifact folder that it serves."""
    yield from started(Server(tmp_path_factory.mktemp("team"), postgres.uri))


@pytest.mark.full
def test_hung_server(server: Server, tmp_path: Path) -> None:
    """A server that stands still for the whole job: the sender gives up in time, and ``sync`` makes it complete."""
    server.signal(signal.SIGSTOP)
    job = Job(tmp_path / "home", server.uri)
    sender = job.start_sender(MLFLOW_RESILIENCE_SENDER_PATIENCE="2")
    job.attempt(1)
    job.points(1, 1, 50)
    until(lambda: job.state.get("state") == "unreachable", what="the outage is said")
    job.end_attempt(1, "FINISHED", 50)
    job.end()
    assert sender.wait(60) == 3
    assert job.state["pending"] > 0
    job.release()
    server.signal(signal.SIGCONT)
    command = [sys.executable, "-m", "mlflow_resilience.cli", "sync", "--patience", "30"]
    environ = {**ENVIRON, "MLFLOW_RESILIENCE_HOME": str(tmp_path / "home")}
    said = [subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120) for _ in range(2)]
    assert [(each.returncode, each.stdout) for each in said] == [
        (0, f"{job.folder.job_id}: all is sent\n"),
        (0, "nothing waits\n"),
    ]
    run_id = job.run_id()
    assert tools.steps(server.database, run_id, "batch/loss") == list(range(1, 51))
    assert tools.status(server.database, run_id) == "FINISHED"
    found = tools.rows(server.database, "select count(*) from tags where value=?", job.folder.job_id)
    assert found == [(1,)], "the run was made twice"


def server_dies(server: Server) -> Outage:
    def begin(_: int) -> Callable[[], None]:
        server.kill()
        return lambda: server.start(wait=False)

    return begin


def test_killed_once(server: Server, tmp_path: Path) -> None:
    """The fast tier's sample."""
    ordeal = Ordeal(server, tmp_path, server_dies(server), seed=7)
    ordeal.run(1)
    ordeal.check()


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_killed_twenty_times(server: Server, tmp_path: Path) -> None:
    """The same at length."""
    ordeal = Ordeal(server, tmp_path, server_dies(server), seed=20)
    ordeal.run(20)
    ordeal.check()


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_killed_twenty_times_on_postgresql(team_server: Server, postgres: Postgres, tmp_path: Path) -> None:
    """The server twenty times; between them its database crashes five times, and the server stays up."""
    dies = server_dies(team_server)

    def outage(round_: int) -> Callable[[], None]:
        if round_ % 5:
            return dies(round_)
        postgres.stop()
        return postgres.start

    ordeal = Ordeal(team_server, tmp_path, outage, seed=21)
    ordeal.run(25)
    ordeal.check()


class Unsteady(threading.Thread):
    """Kills the server again and again, and starts it each time, until told to stop."""

    def __init__(self, server: Server, seed: int) -> None:
        super().__init__(daemon=True)
        self._server, self._dice, self._enough = server, random.Random(seed), threading.Event()
        self.kills = 0

    def run(self) -> None:
        while not self._enough.wait(self._dice.uniform(0.5, 4.0)):
            self._server.kill()
            self.kills += 1
            self._enough.wait(self._dice.uniform(0.0, 2.0))
            self._server.start()

    def stop(self) -> None:
        self._enough.set()
        self.join(150)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_real_training_meets_a_server_that_dies_again_and_again(server: Server, tmp_path: Path) -> None:
    """It trains as if nothing were, and MLflow has all of it when the server has come to rest."""
    epochs = 30
    unsteady = Unsteady(server, seed=3)
    unsteady.start()
    options = ["--epochs", str(epochs), "--fault", "raise@60,kill@200", "--delivery-seconds", "0"]
    settings = {"MLFLOW_RESILIENCE_REQUEST_SECONDS": "3", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    ended = main_job.train(tmp_path, *options, timeout=600, MLFLOW_TRACKING_URI=server.uri, **settings)
    unsteady.stop()
    assert unsteady.kills >= 3
    assert ended.code == 0, ended.output
    _check_training(server, tmp_path, epochs, ended)


def _check_training(server: Server, folder: Path, epochs: int, ended: main_job.Ended) -> None:
    home = folder / ".mlflow_resilience"
    (path,) = (home / "jobs").iterdir()
    until(lambda: tools.JobFolder(path).sender() is None, 120, "the job's own sender has ended")
    assert all(each.done for each in sync(home, patience=60))
    state: dict[str, Any] = tools.JobFolder(path).read_sender_state()
    assert (state["state"], state["problems"]) == ("done", [])
    database, run_id = server.database, state["run_id"]
    assert tools.steps(database, run_id, "batch/loss") == list(range(1, 45 * epochs + 1))
    assert tools.steps(database, run_id, "val_loss") == list(range(45, 45 * epochs + 1, 45))
    assert tools.status(database, run_id) == "FINISHED"
    assert tools.tags(database, run_id)["resilience.outcome"] == "recovered"
    statuses = [tools.status(database, child) for _, child in sorted(tools.children(database, run_id).items())]
    assert statuses == ["FAILED", "FAILED", "FINISHED"]
    query = "select distinct status from logged_models where source_run_id = ? and lifecycle_stage = 'active'"
    assert tools.rows(database, query, run_id) == [(2,)]
