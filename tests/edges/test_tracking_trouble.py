"""A real server behind a proxy that refuses and loses what it is told to; and a store that somebody else holds."""

from __future__ import annotations

import base64
import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.edges import tracking_tools as tools
from tests.edges.proxy import Lose, Proxy, Refuse, Request
from tests.edges.tracking_tools import Job, Server, until

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.shutdown()


def finished(job: Job, points: int = 30) -> str:
    """The rest of a small job, delivered: its run."""
    job.attempt(1)
    job.points(1, 1, points)
    job.end_attempt(1, "FINISHED", points)
    job.end()
    assert job.finish(120) == 0, job.log()
    return job.run_id()


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"ada:{password}".encode()).decode()


def credentials(home: Path, password: str) -> None:
    (home / ".mlflow").mkdir(exist_ok=True)
    text = f"[mlflow]\nmlflow_tracking_username = ada\nmlflow_tracking_password = {password}\n"
    (home / ".mlflow" / "credentials").write_text(text)


def test_credentials_that_change_are_read_anew(server: Server, proxy: Proxy, tmp_path: Path) -> None:
    """Wrong at first, put right, and changed once more while the job runs: one sender delivers all."""
    accepted = basic("second")

    def rule(request: Request) -> Refuse | None:
        return None if request.headers.get("Authorization") == accepted else Refuse(401, body=b"who are you")

    proxy.rule = rule
    credentials(tmp_path, "first")
    job = Job(tmp_path / "home", proxy.uri)
    sender = job.start_sender(HOME=str(tmp_path))
    until(lambda: "401" in job.state.get("message", ""), what="the refusal is said")
    credentials(tmp_path, "second")
    run_id = job.run_id()
    accepted = basic("third")
    job.points(1, 1, 10)
    until(lambda: job.state.get("state") == "unreachable", what="the second refusal is said")
    credentials(tmp_path, "third")
    assert finished(job) == run_id
    assert tools.steps(server.database, run_id, "batch/loss") == list(range(1, 31))
    assert job.state["problems"] == [] and job.sender is sender


def test_a_server_that_asks_for_time_gets_it(server: Server, proxy: Proxy, tmp_path: Path) -> None:
    """429 with Retry-After: no batch comes sooner than was asked, and none is lost."""
    refused: list[Request] = []

    def rule(request: Request) -> Refuse | None:
        if "log-batch" not in request.path or len(refused) >= 3:
            return None
        refused.append(request)
        return Refuse(429, {"Retry-After": "2"})

    proxy.rule = rule
    job = Job(tmp_path / "home", proxy.uri)
    job.start_sender()
    run_id = finished(job)
    assert tools.steps(server.database, run_id, "batch/loss") == list(range(1, 31))
    batches = [request.time for request in proxy.requests if "log-batch" in request.path]
    waits = [later - earlier for earlier, later in pairwise(batches)][:3]
    assert min(waits) >= 2.0, waits


def test_an_answer_that_is_lost_makes_nothing_twice(server: Server, proxy: Proxy, tmp_path: Path) -> None:
    """Every kind of request is carried out, and its first answer lost."""
    lost: Counter[str] = Counter()

    def rule(request: Request) -> Lose | None:
        kind = f"{request.method} {request.path.partition('?')[0]}"
        lost[kind] += 1
        return Lose() if request.method != "GET" and lost[kind] == 1 else None

    proxy.rule = rule
    job = Job(tmp_path / "home", proxy.uri, params={"epochs": "2"})
    job.start_sender()
    (job.folder.artifacts / "file.bin").write_bytes(b"whole" * 1000)
    job.append("artifact", run="job", path="artifacts/file.bin", folder="resilience")
    run_id = finished(job)
    assert sum(count > 1 for kind, count in lost.items() if not kind.startswith("GET")) >= 4, lost
    assert tools.steps(server.database, run_id, "batch/loss") == list(range(1, 31))
    query = "select t.value from tags t join runs r on r.run_uuid = t.run_uuid where r.lifecycle_stage = 'active'"
    mine = f"{job.folder.job_id}%"
    runs = tools.rows(server.database, f"{query} and t.key = 'resilience.local_id' and t.value like ?", mine)
    assert len(runs) == len(set(runs)) == 2
    assert tools.params(server.database, run_id) == {"epochs": "2"}
    (path,) = (server.folder / "artifacts").rglob("resilience/file.bin")
    assert path.read_bytes() == b"whole" * 1000
    assert job.state["problems"] == []


def test_over_long_values_are_said_once(server: Server, tmp_path: Path) -> None:
    """Cut, and recorded; a sender that starts again does not say it again."""
    job = Job(tmp_path / "home", server.uri, params={"long": "x" * 9000}, tags={"wide": "y" * 9000})
    job.start_sender()
    job.run_id()
    until(lambda: len(job.state["problems"]) == 2, what="both are said")
    job.kill_sender()
    job.append("tags", run="job", tags={"wide": "y" * 9000})
    job.start_sender()
    run_id = finished(job)
    said = {problem["what"] for problem in job.state["problems"]}
    assert said == {"param long of the job", "tag wide of the job"}
    assert job.log().count("refused: tag wide") == 1
    assert (len(tools.params(server.database, run_id)["long"]), len(tools.tags(server.database, run_id)["wide"])) == (
        6000,
        8000,
    )


def test_a_run_deleted_in_the_server_blocks_nothing(server: Server, tmp_path: Path) -> None:
    """It is said a few times at most, and the attempt's own run has all."""
    job = Job(tmp_path / "home", server.uri)
    job.start_sender()
    run_id = job.run_id()
    job.attempt(1)
    until(lambda: "1" in job.state["runs"])
    from mlflow import MlflowClient

    MlflowClient(server.uri).delete_run(run_id)
    for first in range(1, 31, 10):
        job.points(1, first, first + 9)
        job.checkpoint(1, first + 9)
        job.journal.flush()
    job.end_attempt(1, "FINISHED", 30)
    job.end()
    assert job.finish(120) == 0, job.log()
    assert tools.steps(server.database, job.state["runs"]["1"], "batch/loss") == list(range(1, 31))
    assert 0 < len(job.state["problems"]) < 15


def test_a_locked_database_is_waited_for(tmp_path: Path) -> None:
    """Somebody else holds the SQLite file for longer than MLflow waits for it."""
    job = Job(tmp_path / "home", f"sqlite:///{tmp_path}/mlflow.db")
    job.start_sender()
    run_id = job.run_id()
    until(lambda: job.state.get("state") == "open")
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None, timeout=30)) as other:
        other.execute("begin exclusive")
        job.attempt(1)
        job.points(1, 1, 30)
        until(lambda: "locked" in job.state.get("message", ""), 90, "the lock is met")
        other.execute("rollback")
    assert finished(job) == run_id
    assert tools.steps(tmp_path / "mlflow.db", run_id, "batch/loss") == list(range(1, 31))
    assert job.state["problems"] == []
