"""The sender as a process: whose run it is, owners that die, stores that cannot work, and what is left behind."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.tracking import waiting
from tests.edges import tracking_tools as tools
from tests.edges.tracking_tools import Job, start_owner, until


def test_an_owner_that_dies_without_a_word(database: Path, place: Path) -> None:
    """Heartbeats while it lives; then its runs are closed as FAILED, the points after its last checkpoint written."""
    job = Job(place / "dead", f"sqlite:///{database}", owned=False)
    owner = start_owner(job.folder)
    job.start_sender()
    run_id = job.run_id()
    first = until(lambda: tools.tags(database, run_id).get("resilience.heartbeat"))
    until(lambda: tools.tags(database, run_id)["resilience.heartbeat"] > first, what="the heart beats")
    until(lambda: tools.steps(database, run_id, "loss") == list(range(1, 21)), what="what the checkpoint covers")
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert job.finish() == 0
    assert tools.steps(database, run_id, "loss") == list(range(1, 31))
    assert tools.status(database, run_id) == "FAILED"
    assert tools.tags(database, run_id)["resilience.outcome"] == "failed"
    child = tools.children(database, run_id)[1]
    assert tools.status(database, child) == "FAILED"
    assert tools.tags(database, child)["resilience.failure_class"] == "process_death"
    assert JobRecord.read(job.folder.journal).outcome == "failed"


def test_the_callers_run_is_adopted(database: Path, place: Path, client: Any) -> None:
    """It is reopened; its own params, tags, curves and description stay, and what is there is not doubled."""
    run = client.create_run(
        "1", start_time=1000, tags={"mlflow.note.content": "my words", "mine": "1"}, run_name="caller's"
    )
    run_id = run.info.run_id
    client.log_param(run_id, "epochs", "3")
    client.log_metric(run_id, "loss", 0.5, timestamp=1, step=1)
    client.log_metric(run_id, "memory/process_rss_mb", 5.0, timestamp=1, step=1)
    client.set_terminated(run_id, "FAILED")
    job = Job(
        place / "adopted", f"sqlite:///{database}", run_id=run_id, params={"epochs": "5", "new": "1"}, started=61.0
    )
    job.start_sender()
    job.attempt(1)
    job.append("points", attempt=1, points=[["loss", 1, 0.7, 9], ["loss", 2, 0.25, 10]])
    job.append("gauges", points=[["memory/process_rss_mb", 1, 6.0, 11]])
    assert job.run_id() == run_id
    until(lambda: tools.status(database, run_id) == "RUNNING", what="the run is open again")
    until(lambda: "1" in job.state["runs"])
    client.set_terminated(run_id, "FAILED")
    until(lambda: tools.status(database, run_id) == "RUNNING", what="and again when somebody ends it")
    job.end_attempt(1, "KILLED", 2)
    job.end("preempted", 75)
    assert job.finish() == 0, job.log()
    assert tools.status(database, run_id) == "KILLED"
    loss = tools.rows(database, "select step, value from metrics where run_uuid=? and key='loss' order by step", run_id)
    assert loss == [(1, 0.5), (2, 0.25)]
    assert tools.steps(database, run_id, "memory/process_rss_mb") == [1, 61]
    assert tools.params(database, run_id) == {"epochs": "3", "new": "1"}
    found = tools.tags(database, run_id)
    assert (found["mine"], found["resilience.outcome"]) == ("1", "preempted")
    assert found["mlflow.note.content"].startswith("my words")
    assert "preempted" in found["mlflow.note.content"]
    events = JobRecord.read(job.folder.journal).events
    assert [event["name"] for event in events] == ["run_reopened"]
    assert "param epochs" in [problem["what"] for problem in job.state["problems"]]


def test_a_deleted_run_blocks_nothing(database: Path, place: Path, client: Any) -> None:
    """A run deleted under a living job is said once; the sender ends in peace."""
    job = Job(place / "deleted", f"sqlite:///{database}")
    job.start_sender()
    run_id = job.run_id()
    client.delete_run(run_id)
    job.attempt(1)
    for first in range(1, 101, 20):
        job.points(1, first, first + 19)
        job.checkpoint(1, first + 19)
        job.journal.flush()
    job.end_attempt(1, "FINISHED", 100)
    job.end()
    assert job.finish() == 0, job.log()
    assert 0 < len(job.state["problems"]) < 15
    assert tools.steps(database, job.state["runs"]["1"], "batch/loss") == list(range(1, 101))


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("nonsense://x", "nonsense"),
        ("sqlite:////nowhere/at/all/mlflow.db", "/nowhere/at/all"),
        ("file:///tmp/x", "file"),
    ],
)
def test_a_store_that_can_never_work(tmp_path: Path, uri: str, says: str) -> None:
    """Said at once in one line; questions are answered; exit code 4 at the job's end."""
    job = Job(tmp_path / "home", uri)
    job.start_sender()
    until(lambda: job.state.get("state") == "invalid")
    assert says in job.state["message"]
    assert "\n" not in job.state["message"]
    job.append("ask", durable=True, request="r1", question="resume", resume="never")
    until((job.folder.answers / "r1.json").exists)
    job.end("failed", 2)
    assert job.finish() == 4
    assert not Path("/nowhere").exists()


def test_an_unknown_run_is_refused(database: Path, place: Path) -> None:
    """The caller's run is not there: invalid, and nothing is made in its place."""
    before = tools.rows(database, "select count(*) from runs")
    job = Job(place / "unknown", f"sqlite:///{database}", run_id="0" * 32)
    job.start_sender()
    until(lambda: job.state.get("state") == "invalid")
    assert "there is no run" in job.state["message"]
    job.end("failed", 2)
    assert job.finish() == 4
    assert tools.rows(database, "select count(*) from runs") == before


def test_the_jobs_folder_is_removed(database: Path, place: Path) -> None:
    """With its owner killed and its folder gone, the job's runs are still closed."""
    job = Job(place / "removed", f"sqlite:///{database}", owned=False)
    owner = start_owner(job.folder)
    sender = job.start_sender()
    run_id = job.run_id()
    until(lambda: tools.children(database, run_id), what="the attempt's run")
    owner.send_signal(signal.SIGKILL)
    gone = place / "removed"
    until(lambda: shutil.rmtree(gone, ignore_errors=True) or not gone.exists(), what="the folder is gone")
    owner.wait()
    assert sender.wait(60) == 3
    assert tools.status(database, run_id) == "FAILED"
    assert tools.tags(database, run_id)["resilience.outcome"] == "failed"
    assert tools.status(database, tools.children(database, run_id)[1]) == "FAILED"
    job.journal.close()


@pytest.mark.full
def test_one_sender_a_job(database: Path, place: Path) -> None:
    """A second one leaves at once, with a code that says so."""
    job = Job(place / "single", f"sqlite:///{database}")
    first = job.start_sender()
    job.run_id()
    assert job.start_sender().wait(60) == 5
    job.sender = first
    job.end()
    assert job.finish() == 0


def test_no_server(tmp_path: Path) -> None:
    """The job goes on locally; the sender ends in bounded time and leaves all on disk, which ``waiting`` lists."""
    job = Job(tmp_path / "home", "http://127.0.0.1:9")
    job.start_sender(MLFLOW_RESILIENCE_SENDER_PATIENCE="1")
    until(lambda: job.state.get("state") == "unreachable")
    assert [folder.job_id for folder in waiting(tmp_path / "home")] == []
    job.end()
    assert job.finish() == 3
    assert job.state["pending"] > 0
    assert [folder.job_id for folder in waiting(tmp_path / "home")] == [job.folder.job_id]


@pytest.mark.full
def test_a_model_superseded_before_it_was_sent_makes_room_and_is_not_sent(database: Path, place: Path) -> None:
    """During an outage checkpoints pile up on disk: only those that are still wanted stay, and are sent."""
    job = Job(place / "spared", "http://127.0.0.1:9")
    job.attempt(1)
    folders = []
    for step in (1, 2, 3):
        folder = job.folder.path / "models" / f"m{step}"
        (folder / "training_state").mkdir(parents=True)
        (folder / "training_state" / "state.json").write_text("{}")
        fields = {"name": "checkpoint", "attempt": 1, "step": step, "epoch": 0, "digest": "d", "folder": str(folder)}
        job.append("model", local_id=f"m{step}", tags={}, metrics={}, delete_after_upload=True, **fields)
        folders.append(folder)
    job.start_sender(MLFLOW_RESILIENCE_SENDER_PATIENCE="0")
    until(lambda: job.state.get("state") == "unreachable", what="the outage is said")
    job.append("model_superseded", durable=True, local_id="m1")
    until(lambda: not folders[0].exists(), 10, "what nobody wants any more makes room")
    assert folders[1].is_dir() and folders[2].is_dir()
    job.append("model_superseded", local_id="m2")
    job.end()
    assert job.finish() == 3
    job.start_sender(MLFLOW_RESILIENCE_TRACKING_URI=f"sqlite:///{database}")
    assert job.finish() == 0, job.log()
    query = "select model_id from logged_models where source_run_id = ?"
    assert len(tools.rows(database, query, job.run_id())) == 1
    assert job.state["problems"] == []
    assert not any(folder.exists() for folder in folders)
