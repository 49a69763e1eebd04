"""A whole job, delivered by a real sender into MLflow's embedded store: exactly what the contract says."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.spool import process
from tests.edges import tracking_tools as tools
from tests.edges.tracking_tools import Job, until


@pytest.fixture(scope="module")
def delivered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A job with a fault in place, a fault with roll-back, a quarantine, and everything else an attempt may meet."""
    place = tmp_path_factory.mktemp("delivered")
    params = {"epochs": "3", "long": "x" * 7000, "odd(name)": 1}
    tags = {"resilience.resume_key": "abc", "mine": "y" * 9000}
    job = Job(place / "home", None, started=time.time() - 60, params=params, tags=tags)
    sender = job.start_sender(cwd=place)
    (job.folder.artifacts / "worker.log").write_text("noise")
    job.attempt(1, accumulation=1, learning_rate_scale=1.0)
    job.points(1, 1, 20)
    job.append("points", attempt=1, points=[["accuracy (top%5)", 20, 0.5, 1], ["loss", 20, float("nan"), 2]])
    job.checkpoint(1, 20)
    job.points(1, 21, 30, shift=5)
    for number in (1, 2):
        job.fault(1, number, 25, in_place=True, message="disk hiccup")
    job.fault(1, 3, 30)
    job.end_attempt(1, "FAILED", 30)
    job.append("rolled_back", attempt=1, step=20)
    job.append("lost", attempt=1, steps=10, seconds=2.5)
    job.attempt(2, 20, accumulation=2, learning_rate_scale=0.5)
    job.append("semantic_change", step=20, text="learning rate halved at step 20")
    job.append("reproducible", value=False, reason="parallel map")
    job.points(2, 19, 20, shift=3)
    job.points(2, 21, 45)
    job.append("gauges", points=[["memory/process_rss_mb", 1, 99.0, 5], ["gradient/global_norm", 21, 1.5, 5]])
    job.append("event", name="quarantine", attempt=2, step=31, text="2 records", data={"records": ["a.png", "b.png"]})
    job.append("artifact", run="job", path="artifacts/worker.log", folder="resilience/logs")
    job.append("artifact", run="job", path="artifacts/worker.log", folder="../../escape")
    job.append("artifact", run="job", path="artifacts/missing.log", folder="resilience")
    job.append("times", attempt=2, productive=1.0, recovery=0.25)
    job.end_attempt(2, "FINISHED", 45)
    job.end("recovered")
    assert sender.wait(120) == 0, job.log()
    job.release()
    database = place / "mlflow.db"
    run_id = job.run_id()
    folder = next((place / "mlruns").rglob(f"{run_id}/artifacts"))
    return {"job": job, "db": database, "run": run_id, "artifacts": folder, "place": place}


def test_curve_has_each_step_once(delivered: dict[str, Any]) -> None:
    """The surviving trajectory, with the values of the attempt that survived, at the original times."""
    database, run_id = delivered["db"], delivered["run"]
    assert tools.steps(database, run_id, "batch/loss") == list(range(1, 46))
    values = dict(tools.rows(database, "select step, value from metrics where run_uuid=? and key='batch/loss'", run_id))
    assert values == {step: 1 / step for step in range(1, 46)}
    times = tools.rows(
        database, "select timestamp from metrics where run_uuid=? and key='gradient/global_norm'", run_id
    )
    assert times == [(5,)]
    assert tools.rows(database, "select is_nan from metrics where run_uuid=? and key='loss'", run_id) == [(1,)]
    assert tools.steps(database, run_id, "accuracy _top_5_") == [20]


def test_attempts_are_children_with_their_own_points(delivered: dict[str, Any]) -> None:
    """Live points, the settings in force as params, a true status, fault and decision as tags."""
    database = delivered["db"]
    attempts = tools.children(database, delivered["run"])
    assert sorted(attempts) == [1, 2]
    assert tools.steps(database, attempts[1], "batch/loss") == list(range(1, 31))
    assert tools.steps(database, attempts[2], "batch/loss") == list(range(19, 46))
    assert [tools.status(database, attempts[n]) for n in (1, 2)] == ["FAILED", "FINISHED"]
    assert tools.params(database, attempts[2]) == {"accumulation": "2", "learning_rate_scale": "0.5"}
    first, second = tools.tags(database, attempts[1]), tools.tags(database, attempts[2])
    expected = {"attempt": "1", "failure_class": "transient_io", "failure_domain": "infrastructure",
                "exception_type": "RuntimeError", "exception_message": "boom",
                "decision": "go back to the last checkpoint", "decision_basis": "first_of_class"}  # fmt: skip
    assert {key: first[f"resilience.{key}"] for key in expected} == expected
    assert second["resilience.resumed_from_step"] == "20"
    assert "resilience.failure_class" not in second


def test_job_tags(delivered: dict[str, Any]) -> None:
    """The contract's tags, and where it ran."""
    found = tools.tags(delivered["db"], delivered["run"])
    expected = {"outcome": "recovered", "attempts": "2", "faults": "3", "failure_classes": "transient_io",
                "resume_key": "abc", "semantic_changes": "learning rate halved at step 20",
                "reproducible": "false: parallel map", "host": process.host(), "lineage_attempts": "2",
                "lineage_faults": "3", "lineage_lost_steps": "10", "exit_code": "0"}  # fmt: skip
    assert {key: found[f"resilience.{key}"] for key in expected} == expected
    line = found["resilience.attempt.1"]
    for part in ("transient_io", "step 30", "go back to the last checkpoint", "first_of_class"):
        assert part in line
    assert found["resilience.heartbeat"].endswith("+00:00")
    assert found["resilience.version.mlflow"]
    assert "resilience.resumed_from_run" not in found
    assert tools.status(delivered["db"], delivered["run"]) == "FINISHED"
    assert len(found["mlflow.note.content"].splitlines()) >= 4


def test_totals(delivered: dict[str, Any]) -> None:
    """What recovery cost, each once, at the step of its event."""
    found = tools.rows(
        delivered["db"],
        "select key, step, value from metrics where run_uuid=? and key like 'resilience/%'",
        delivered["run"],
    )
    values = {(key, step): value for key, step, value in found}
    assert len(values) == len(found)
    assert values[("resilience/quarantined_records", 31)] == 2
    assert values[("resilience/checkpoint_bytes", 20)] == 10
    assert values[("resilience/lost_steps", 30)] == 10
    assert values[("resilience/recovery_seconds", 45)] == 0.25
    assert ("resilience/goodput", 45) in values


def test_artifacts(delivered: dict[str, Any]) -> None:
    """Under ``resilience/``, whole; equal exceptions counted; nothing beside the run's folder."""
    folder: Path = delivered["artifacts"]
    names = tools.artifacts(folder)
    for name in ("events.jsonl", "attempts.json", "exceptions/attempt-001.txt", "exceptions/attempt-001-fault-01.txt",
                 "quarantine.jsonl", "logs/worker.log"):  # fmt: skip
        assert f"resilience/{name}" in names
    assert "resilience/exceptions/attempt-001-fault-02.txt" not in names
    counted = (folder / "resilience/exceptions/attempt-001-fault-01.txt").read_text()
    assert "seen 2 times" in counted
    text = (folder / "resilience/exceptions/attempt-001.txt").read_text()
    for part in ("Traceback\nRuntimeError: boom", "OSError: the cause", "process_rss_mb", "look at the disk"):
        assert part in text
    events = [json.loads(line) for line in (folder / "resilience/events.jsonl").read_text().splitlines()]
    assert {event["format"] for event in events} == {1}
    kinds = [event["kind"] for event in events]
    assert (kinds[0], kinds.count("job_ended"), kinds.count("fault")) == ("header", 1, 3)
    assert not {"points", "gauges", "carried", "ask"} & set(kinds)
    table = json.loads((folder / "resilience/attempts.json").read_text())
    assert [row[table["columns"].index("status")] for row in table["data"]] == ["FAILED", "FINISHED"]
    tag = json.loads(tools.tags(delivered["db"], delivered["run"])["mlflow.loggedArtifacts"])
    assert tag == [{"path": "resilience/attempts.json", "type": "table"}]
    assert not list(delivered["place"].rglob("escape"))


def test_what_differs_on_replay_is_said_once(delivered: dict[str, Any]) -> None:
    """It stays on the attempt; the event names key, count and values."""
    events = [
        json.loads(line) for line in (delivered["artifacts"] / "resilience/events.jsonl").read_text().splitlines()
    ]
    said = [event for event in events if event.get("name") == "replay_differs"]
    assert [(event["attempt"], event["data"]["key"], event["data"]["count"]) for event in said] == [
        (2, "batch/loss", 2)
    ]


def test_refusals_are_noted_and_block_nothing(delivered: dict[str, Any]) -> None:
    """Over-long values are cut and said; an impossible artifact is said; the rest is there."""
    database, run_id = delivered["db"], delivered["run"]
    found = tools.params(database, run_id)
    assert (found["epochs"], len(found["long"]), found["odd_name_"]) == ("3", 6000, "1")
    assert len(tools.tags(database, run_id)["mine"]) == 8000
    said = {problem["what"]: problem["why"] for problem in delivered["job"].state["problems"]}
    assert {"param long of the job", "tag mine of the job"} <= set(said)
    assert any("may not leave" in why for why in said.values())
    assert any("missing.log" in why for why in said.values())


def test_delivering_again_changes_nothing(delivered: dict[str, Any]) -> None:
    """A sender that has lost its state does it all again, and the store looks the same."""
    job, database, run_id = delivered["job"], delivered["db"], delivered["run"]
    count = "select count(*) from {}"
    before = {table: tools.rows(database, count.format(table)) for table in ("runs", "metrics", "params", "tags")}
    job.folder.sender_state.unlink()
    assert job.start_sender(cwd=delivered["place"]).wait(120) == 0, job.log()
    assert job.run_id() == run_id
    assert {table: tools.rows(database, count.format(table)) for table in before} == before
    assert tools.status(database, run_id) == "FINISHED"
    until(lambda: job.folder.sender() is None)
