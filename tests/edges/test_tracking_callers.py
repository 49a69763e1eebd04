"""Runs that are not ours to end: the caller's, and those that a supervised script opens."""

from __future__ import annotations

from typing import Any

from mlflow_resilience.tracking.operations import EndRun, EndScriptRun, OpenRun, Operation, SetTags
from mlflow_resilience.tracking.projection import Projection


def project(*entries: dict[str, Any]) -> list[Operation]:
    projection = Projection()
    return [operation for entry in entries for operation in projection.add({"time": 1.0, **entry})]


HEADER = {"kind": "header", "job_id": "j"}
CALLERS = {"kind": "job", "job_id": "j", "run_id": "r", "caller_owns_end": True}


def test_a_run_of_the_callers_is_neither_ended_nor_opened_again() -> None:
    operations = project(HEADER, CALLERS, {"kind": "job_ended", "outcome": "clean", "exit_code": 0})
    assert [each.reopen for each in operations if isinstance(each, OpenRun)] == [False]
    assert not any(isinstance(each, EndRun) for each in operations)


def test_when_the_caller_is_gone_its_run_is_ended() -> None:
    ended = {"kind": "job_ended", "outcome": "failed", "exit_code": None, "owner_gone": True}
    assert EndRun("job", "FAILED", 1000) in project(HEADER, CALLERS, ended)


def opened(run_id: str, pid: int) -> dict[str, Any]:
    return {"kind": "event", "name": "script_run", "data": {"run_id": run_id, "tracking_uri": "u", "pid": pid}}


def test_what_a_dead_process_of_the_script_had_open_is_ended_by_the_next_one() -> None:
    worker = {"kind": "owner", "role": "worker", "host": "h"}
    before = [HEADER, {"kind": "job", "job_id": "j"}, {**worker, "pid": 1}, opened("a", 1)]
    operations = project(*before, {**worker, "pid": 2}, opened("b", 2))
    assert [each for each in operations if isinstance(each, EndScriptRun)] == [EndScriptRun("a", "u", "FAILED")]
    assert SetTags("job", {"resilience.script_runs": "a,b"}) in operations
    last = project(*before, {"kind": "job_ended", "outcome": "preempted", "exit_code": 75})
    assert EndScriptRun("a", "u", "KILLED") in last


def test_the_jobs_own_run_is_no_run_of_the_scripts() -> None:
    operations = project(HEADER, {"kind": "job", "job_id": "j", "run_id": "r"}, opened("r", 1))
    assert not any("resilience.script_runs" in each.tags for each in operations if isinstance(each, SetTags))
