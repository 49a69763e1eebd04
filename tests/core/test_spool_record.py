"""The record folds a journal; its curve has each (key, step) once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlflow_resilience.spool.curve import Curve, Series
from mlflow_resilience.spool.journal import Journal
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.spool.summary import attempt_line, decision_line, description_markdown, semantic_changes_line


def record_of(*entries: tuple[str, dict[str, Any]]) -> JobRecord:
    record = JobRecord()
    for kind, fields in entries:
        record.add({"kind": kind, "time": 1.0, **fields})
    return record


def losses(attempt: int, *steps: int, value: float = 0.5) -> tuple[str, dict[str, Any]]:
    return "points", {"attempt": attempt, "points": [["loss", step, value, step * 1000] for step in steps]}


def steps(record: JobRecord, key: str = "loss") -> list[int]:
    return [step for step, _, _ in record.curve.get(key, ())]


def test_roll_back_drops_what_no_checkpoint_covers() -> None:
    """Points beyond the step that training goes back to leave the curve; the replay's take their place."""
    record = record_of(
        ("attempt", {"attempt": 1, "step": 0}),
        losses(1, 1, 2, 3, 4),
        ("checkpoint", {"attempt": 1, "step": 2}),
        ("rolled_back", {"attempt": 1, "step": 2}),
    )
    assert steps(record) == [1, 2]
    record.add({"kind": "attempt", "attempt": 2, "step": 2})
    record.add({"kind": "points", "attempt": 2, "points": [["loss", 3, 0.7, 9], ["loss", 4, 0.7, 9], "rubbish"]})
    record.add({"kind": "job_ended", "outcome": "recovered", "exit_code": 0})
    assert list(record.curve["loss"])[2:] == [(3, 0.7, 9), (4, 0.7, 9)]
    assert [len(attempt.points["loss"]) for attempt in record.attempts] == [4, 2]
    assert record.last_step == 4


def test_a_new_attempt_drops_likewise() -> None:
    """A process that died says no ``rolled_back``: the next attempt's first step tells."""
    record = record_of(losses(1, 1, 2, 3), ("attempt", {"attempt": 2, "step": 1}))
    assert steps(record) == [1]


def test_replay_of_committed_points() -> None:
    """They stay as committed; equal ones are silent, differing ones are kept aside."""
    record = record_of(losses(1, 1, 2, 3), ("checkpoint", {"step": 3}), ("rolled_back", {"step": 1}), losses(1, 2))
    assert record.stitching.differing == {}
    record.add({"kind": "points", "attempt": 2, "points": [["loss", 3, 0.9, 1]]})
    assert steps(record) == [1, 2, 3]
    assert record.stitching.differing == {"loss": [(3, 0.5, 0.9)]}


def test_carried_points_come_once() -> None:
    """The earlier job's curve is there once, however often it is handed over."""
    carried = ("carried", {"points": [["loss", 1, 0.5, 1], ["loss", 2, math.nan, 2]]})
    record = record_of(carried, ("attempt", {"attempt": 1, "step": 2}), losses(1, 3), carried)
    assert steps(record) == [1, 2, 3]


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["points", "checkpoint", "rolled_back", "attempt"]), st.integers(0, 12)), max_size=40
)


@given(operations=OPERATIONS)
def test_each_step_once_and_committed_stays(operations: list[tuple[str, int]]) -> None:
    """Over any history: no (key, step) twice; what was committed never changes; all is committed at the end."""
    curve, sent = Curve(), []
    for number, (kind, step) in enumerate(operations):
        if kind == "points":
            curve.add("loss", step, float(number), number)
        elif kind == "checkpoint":
            sent += curve.commit(step)
        else:
            curve.drop_after(step)
        stitched = list(curve.stitched().get("loss", ()))
        assert len({point[0] for point in stitched}) == len(stitched)
        assert [point[0] for point in stitched] == sorted(point[0] for point in stitched)
    sent += curve.commit()
    assert sorted((step, value, ms) for _, step, value, ms in sent) == list(curve.stitched().get("loss", ()))


def test_series_is_a_sequence() -> None:
    """Ordered by step whatever the order of arrival."""
    series = Series()
    for step in (3, 1, 2):
        series.add(step, step / 2, step)
    assert list(series) == [(1, 0.5, 1), (2, 1.0, 2), (3, 1.5, 3)]
    assert (len(series), series[-1], series[:1]) == (3, (3, 1.5, 3), [(1, 0.5, 1)])
    assert (series.get(2), series.get(9)) == (1.0, None)


FAULT = {
    "exception": "ResourceExhaustedError",
    "message": "OOM",
    "phase": "step",
    "position": {"global_step": 100, "epoch": 2, "step": 4},
}


def test_lines() -> None:
    """One readable line an attempt, and a description of a few lines."""
    record = record_of(
        ("header", {"job_id": "j", "format": 1}),
        ("job", {"experiment": "e", "params": {"epochs": 3}, "tags": {"a": "b"}}),
        ("owner", {"pid": 1}),
        ("attempt", {"attempt": 1, "step": 0, "settings": {"accumulation": 1}, "pid": 3}),
        (
            "fault",
            {"attempt": 1, "number": 1, "fault": FAULT, "failure_class": "host_oom", "failure_domain": "workload"},
        ),
        ("decision", {"attempt": 1, "number": 1, "text": "train in 2 micro-batches", "basis": "first_of_class"}),
        ("attempt_ended", {"attempt": 1, "status": "FAILED", "step": 100}),
        ("fault", {"attempt": 2, "number": 2, "in_place": True, "fault": {}, "failure_class": "bad_data"}),
        ("times", {"attempt": 2, "productive": 3.5}),
        ("times", {"attempt": 2, "seconds": {"productive": 4.5}}),
        ("semantic_change", {"step": 3, "text": "learning rate halved at step 3"}),
        ("semantic_change", {"step": 3, "text": "learning rate halved at step 3"}),
        ("reproducible", {"value": False, "reason": "parallel map"}),
        ("resumed", {"from_step": 2, "text": "resumed from run r at step 2"}),
        ("attempt_ended", {"attempt": 2, "status": "FINISHED", "step": 120}),
        ("lost", {"steps": 2}),
        ("model", {"local_id": "m"}),
        ("model_superseded", {"local_id": "m"}),
        ("gauges", {"points": [["memory/process_rss_mb", 1, 2.0, 3]]}),
        ("event", {"name": "x"}),
        ("something_new", {"a": 1}),
        ("job_ended", {"outcome": "recovered", "exit_code": 0, "text": "done"}),
    )
    first, second = record.attempts
    line = attempt_line(first)
    assert line.startswith("host_oom (ResourceExhaustedError) at step 100, epoch 3 in step; train in 2 micro-batches")
    assert "basis: first_of_class" in line
    assert attempt_line(second) == "finished, from step 0 to step 120"
    assert second.times == {"productive": 4.5}
    assert record.failure_classes == ["host_oom", "bad_data"]
    assert semantic_changes_line(record) == "learning rate halved at step 3"
    text = description_markdown(record)
    for part in ("recovered", "done", "resumed from run r", "1. host_oom", "Handled in place: 1", "Not reproducible"):
        assert part in text
    assert decision_line(record.faults[1]) == ""
    assert (record.job_id, record.exit_code, record.params, record.tags) == ("j", 0, {"epochs": 3}, {"a": "b"})


def test_read(tmp_path: Path) -> None:
    """Straight from a file."""
    journal = Journal(tmp_path / "journal")
    journal.append("header", job_id="j")
    journal.append("fault", fault={})
    journal.append("decision", number=1, actions=["retry"], verdict="continue")
    journal.close()
    record = JobRecord.read(tmp_path / "journal")
    assert (record.job_id, record.outcome, record.attempts[0].number) == ("j", "running", 1)
    assert decision_line(record.faults[0]) == "continue: retry"


def test_a_fault_is_placed_in_the_words_of_its_decision() -> None:
    record = JobRecord()
    why = "because it is the first fault of its class"
    text = f"unknown (RuntimeError) in step 60 (epoch 2): back to the last checkpoint, {why}"
    fault = {"exception": "RuntimeError", "position": {"global_step": 59, "epoch": 1}, "phase": "step"}
    record.add({"kind": "attempt", "attempt": 1, "step": 0})
    where = "in step 60 (epoch 2)"
    record.add({"kind": "fault", "attempt": 1, "number": 1, "fault": fault, "failure_class": "unknown", "where": where})
    record.add({"kind": "decision", "attempt": 1, "number": 1, "text": text, "basis": "first"})
    assert attempt_line(record.attempts[0]) == text


def test_a_journal_of_the_first_format_can_be_read() -> None:
    """Kept from a job that was killed in mid-epoch and recovered: later versions must read it as it was meant."""
    record = JobRecord.read(Path(__file__).parents[1] / "data" / "journal-format-1" / "journal")
    assert record.header["format"] == 1
    assert (record.outcome, record.exit_code, record.failure_classes) == ("recovered", 0, ["process_death"])
    assert [(each.number, each.step, each.status) for each in record.attempts] == [
        (1, 0, "FAILED"),
        (2, 20, "FINISHED"),
    ]
    assert [step for step, _, _ in record.curve["batch/loss"]] == list(range(1, 41))
    assert [step for step, _, _ in record.curve["val_accuracy"]] == [20, 40]
