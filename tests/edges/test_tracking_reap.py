"""Runs of owners that are gone are closed: at the next start, or by ``reap``."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.cli.main import call
from mlflow_resilience.tracking import reap
from tests.edges import tracking_tools as tools
from tests.edges.tracking_tools import ENVIRON, Job, start_owner, until


def test_reap(database: Path, place: Path, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead owners' runs are closed, local and foreign; living ones, and those never ours, stay."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    home, uri = place / "reaped", f"sqlite:///{database}"
    living = Job(home, uri)
    living.start_sender()
    dead = Job(home, uri, owned=False)
    owner = start_owner(dead.folder)
    dead.start_sender()
    dead_run, living_run = dead.run_id(), living.run_id()
    until(lambda: tools.steps(database, dead_run, "loss"), what="something is delivered")
    dead.kill_sender()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    host = os.uname().nodename
    gone = {"resilience.outcome": "running", "resilience.heartbeat": "2020-01-01T00:00:00+00:00"}
    fresh = {**gone, "resilience.heartbeat": "2999-01-01T00:00:00+00:00"}
    foreign = client.create_run("1", tags={**gone, "resilience.host": "elsewhere"}).info.run_id
    child = client.create_run("1", tags={"mlflow.parentRunId": foreign, "resilience.attempt": "1"}).info.run_id
    foreign_alive = client.create_run("1", tags={**fresh, "resilience.host": "elsewhere"}).info.run_id
    local = client.create_run("1", tags={**fresh, "resilience.host": host, "resilience.pid": "999999"}).info.run_id
    not_ours = client.create_run("1", start_time=1000).info.run_id
    closed = {each.run_id for each in reap(home, uri)}
    assert closed == {dead_run, foreign, child, local}
    assert {tools.status(database, run_id) for run_id in closed} == {"FAILED"}
    assert tools.tags(database, foreign)["resilience.outcome"] == "failed"
    assert tools.steps(database, dead_run, "loss") == list(range(1, 31)), "points after the last checkpoint"
    assert {tools.status(database, run) for run in (living_run, foreign_alive, not_ours)} == {"RUNNING"}
    assert_it_reads_well(place, uri, dead_run, tools.tags(database, dead_run))
    assert {each.run_id for each in reap(home, uri, unowned=True)} == {not_ours}
    dead.release()
    living.end()
    assert living.finish() == 0


def assert_it_reads_well(place: Path, uri: str, run_id: str, tags: dict[str, str]) -> None:
    """Report and description of a job that died without a word say as much as those of one that ended itself, and so
    does the report that is made from MLflow alone."""
    told = ("Failed at step 30, after 1 attempt and 1 fault", "process_death", "No result", "that of step 20", "hint:")
    page = (place / "artifacts" / run_id / "artifacts" / "resilience" / "report.html").read_text()
    retold = place / "retold.html"
    assert call(["report", run_id, "--tracking-uri", uri, "-o", str(retold)]) == 0
    for text in (page, retold.read_text()):
        assert [words for words in told if words not in text] == []
    assert "**failed**" in tags["mlflow.note.content"]
    assert "Result: There is no finished result." in tags["mlflow.note.content"]
    assert "process_death" in tags["resilience.attempt.1"]
    assert tags["resilience.lineage_lost_steps"] == "10", "those beyond the checkpoint"


@pytest.mark.full
def test_the_next_start_closes_what_died(database: Path, place: Path) -> None:
    """A job that starts in the same home delivers and closes the one before it."""
    home, uri = place / "swept", f"sqlite:///{database}"
    dead = Job(home, uri, owned=False)
    owner = start_owner(dead.folder)
    dead.start_sender()
    run_id = dead.run_id()
    dead.kill_sender()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    dead.release()
    following = Job(home, uri)
    following.start_sender(MLFLOW_RESILIENCE_SWEEP_SECONDS="0.1")
    until(lambda: tools.status(database, run_id) == "FAILED", what="the dead job's run is closed")
    until(lambda: dead.state.get("state") == "done", what="all of it is delivered")
    assert tools.steps(database, run_id, "loss") == list(range(1, 31))
    following.end()
    assert following.finish() == 0
