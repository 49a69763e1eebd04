"""Sender and server killed at random during a job: in the end the store holds each thing once."""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_resilience.tracking import sync
from tests.edges import tracking_tools as tools
from tests.edges.tracking_tools import ENVIRON, Job, Server, until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    if server.process is not None and server.process.poll() is None:
        server.kill()


def test_hung_server(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    (delivered,) = sync(tmp_path / "home", patience=30)
    assert delivered.done, (delivered, job.log())
    run_id = str(delivered.run_id)
    assert tools.steps(server.database, run_id, "batch/loss") == list(range(1, 51))
    assert tools.status(server.database, run_id) == "FINISHED"
    found = tools.rows(server.database, "select count(*) from tags where value=?", job.folder.job_id)
    assert found == [(1,)], "the run was made twice"
    assert sync(tmp_path / "home") == []


def chaos(server: Server, place: Path, rounds: int, seed: int) -> None:
    """One job over ``rounds``; in each, the server or the sender (or both) is killed while points flow."""
    dice = random.Random(seed)
    job = Job(place / "home", server.uri, params={"epochs": 7}, tags={"resilience.resume_key": "k"})
    job.start_sender()
    job.run_id()
    attempt, step = 1, 0
    job.attempt(1)
    for round_ in range(rounds):
        kill_server = round_ % 3 != 1
        for _ in range(dice.randrange(3, 8)):
            job.points(attempt, step + 1, step + 25)
            job.points(attempt, step + 25, step + 25, key="loss")
            step += 25
            job.append("gauges", points=[["memory/process_rss_mb", step, 1.0, step]])
            if dice.random() < 0.5:
                job.checkpoint(attempt, step)
            job.journal.flush()
            time.sleep(dice.random() * 0.3)  # where the kill falls is the chance under test
        if kill_server:
            until(server.is_healthy, 120, "the server is up")
            server.kill()
        if round_ % 3 != 0:
            job.kill_sender()
        job.points(attempt, step + 1, step + 40, shift=1000)  # these do not survive
        job.fault(attempt, round_ + 1, step + 40)
        job.end_attempt(attempt, "FAILED", step + 40)
        job.append("rolled_back", attempt=attempt, step=step)
        attempt += 1
        job.attempt(attempt, step)
        if kill_server:
            server.start(wait=False)
        if job.sender is not None and job.sender.poll() is not None:
            job.start_sender()
    job.end_attempt(attempt, "FINISHED", step)
    job.end("recovered")
    assert job.finish(90) == 0, job.log()
    check(server, job, attempt, step)


def check(server: Server, job: Job, attempts: int, last: int) -> None:
    database, run_id = server.database, job.run_id()
    assert tools.steps(database, run_id, "batch/loss") == list(range(1, last + 1))
    values = tools.rows(database, "select max(value) from metrics where run_uuid=? and key='batch/loss'", run_id)
    assert values == [(1.0,)], "a point of a lost trajectory is on the job's curve"
    assert tools.steps(database, run_id, "loss") == list(range(25, last + 1, 25))
    assert tools.steps(database, run_id, "memory/process_rss_mb") == list(range(25, last + 1, 25))
    found = tools.tags(database, run_id)
    assert (found["resilience.outcome"], found["resilience.attempts"]) == ("recovered", str(attempts))
    assert found["resilience.faults"] == str(attempts - 1)
    assert tools.params(database, run_id) == {"epochs": "7"}
    assert tools.status(database, run_id) == "FINISHED"
    query = "select t.value from tags t join runs r on r.run_uuid = t.run_uuid where r.lifecycle_stage = 'active'"
    mine = f"{job.folder.job_id}%"
    runs = tools.rows(database, f"{query} and t.key = 'resilience.local_id' and t.value like ?", mine)
    assert len(runs) == len(set(runs)) == attempts + 1, "a run was made twice"
    for number, child in tools.children(database, run_id).items():
        assert tools.status(database, child) == ("FINISHED" if number == attempts else "FAILED")
        seen = tools.steps(database, child, "batch/loss")
        assert all(a < b for a, b in itertools.pairwise(seen)), "a point of an attempt was doubled"
    folder = next((server.folder / "artifacts").rglob(f"{run_id}/artifacts"))
    assert "resilience/attempts.json" in tools.artifacts(folder)
    assert len(list(folder.glob("resilience/exceptions/attempt-*.txt"))) == attempts - 1
    lines = (folder / "resilience/events.jsonl").read_text().splitlines()
    assert sum('"job_ended"' in line for line in lines) == 1
    assert job.state["problems"] == []


def test_killed_three_times(server: Server, tmp_path: Path) -> None:
    """The fast tier's sample: server alone, sender alone, both."""
    chaos(server, tmp_path, rounds=3, seed=7)


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_killed_twenty_times(server: Server, tmp_path: Path) -> None:
    """The same at length."""
    chaos(server, tmp_path, rounds=20, seed=20)
