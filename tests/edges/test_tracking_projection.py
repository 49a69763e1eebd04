"""The projection and its pump, against a store in memory: killed between any two operations, the end is the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_resilience.spool.codec import encode
from mlflow_resilience.tracking import documents, limits
from mlflow_resilience.tracking.operations import (
    EndRun,
    LogMetrics,
    LogParams,
    OpenRun,
    Operation,
    Say,
    SetTags,
)
from mlflow_resilience.tracking.projection import Projection
from mlflow_resilience.tracking.pump import Pump, coalesce
from mlflow_resilience.tracking.state import SenderState


class Killed(Exception):
    """The sender dies here."""


class Store:
    """What MLflow's store does with repeated writes: equal points, params and tags fall together."""

    def __init__(self) -> None:
        self.runs: dict[Any, dict[str, Any]] = {}
        self.budget: int | None = None  # operations until the sender dies
        self.torn = False  # and whether the last one is half done by then

    def execute(self, operation: Operation) -> None:
        if self.budget is not None:
            if self.budget == 0:
                if self.torn and isinstance(operation, LogMetrics):
                    self._do(replace(operation, points=operation.points[: len(operation.points) // 2]))
                raise Killed
            self.budget -= 1
        self._do(operation)

    def _do(self, operation: Operation) -> None:
        if isinstance(operation, OpenRun):
            empty: dict[str, Any] = {"metrics": set(), "params": {}, "tags": {}, "status": "RUNNING"}
            run = self.runs.setdefault(operation.run, empty)
            run["tags"].update(operation.tags)
        elif isinstance(operation, LogMetrics):
            self.runs[operation.run]["metrics"] |= set(operation.points)
        elif isinstance(operation, LogParams):
            for key, value in operation.params.items():
                assert self.runs[operation.run]["params"].setdefault(key, value) == value
        elif isinstance(operation, SetTags):
            self.runs[operation.run]["tags"].update({key: str(value) for key, value in operation.tags.items()})
        elif isinstance(operation, EndRun):
            self.runs[operation.run]["status"] = operation.status


def journal_of(plan: list[tuple[str, int]]) -> bytes:
    """A job's journal after a plan of training, saving, faults and deaths."""
    entries: list[dict[str, Any]] = [
        {"kind": "header", "job_id": "j"},
        {"kind": "owner", "pid": 1, "host": "h", "role": "process"},
        {"kind": "job", "params": {"epochs": 3}, "tags": {"a": "b"}},
        {"kind": "attempt", "attempt": 1, "step": 0, "settings": {"accumulation": 1}},
    ]
    attempt, step, saved, clock = 1, 0, 0, 0
    for kind, size in plan:
        if kind == "train":
            points = [["loss", step + n, 1.0 / (step + n), (clock := clock + 1)] for n in range(1, size + 1)]
            entries.append({"kind": "points", "attempt": attempt, "points": points})
            step += size
        elif kind == "save":
            saved = step
            entries.append({"kind": "checkpoint", "attempt": attempt, "step": step, "bytes": 1, "stall_ms": 1.0})
        else:
            facts = {"fault": {"exception": "E"}, "failure_class": kind, "number": attempt, "attempt": attempt}
            entries.append({"kind": "fault", **facts})
            if kind == "fault":
                entries += [{"kind": "attempt_ended", "attempt": attempt, "status": "FAILED"},
                            {"kind": "rolled_back", "attempt": attempt, "step": saved}]  # fmt: skip
            attempt, step = attempt + 1, saved
            entries.append(
                {"kind": "attempt", "attempt": attempt, "step": saved, "settings": {"accumulation": attempt}}
            )
    entries.append({"kind": "job_ended", "outcome": "recovered", "exit_code": 0})
    return b"".join(encode({"time": 100.0 + n, **entry}) for n, entry in enumerate(entries))


def drain(path: Path, state: SenderState, store: Store) -> None:
    pump = Pump(path, Projection({}), state, store.execute)
    while pump.step():
        pass


PLANS = st.lists(
    st.tuples(st.sampled_from(["train", "train", "save", "fault", "death"]), st.integers(1, 6)), max_size=14
)

DEATHS = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    plan=PLANS, deaths=st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=6), seen=st.data()
)
def test_killed_between_any_two_operations(
    plan: list[tuple[str, int]], deaths: list[tuple[int, bool, bool]], seen: st.DataObject
) -> None:
    """However often the sender dies, wherever, with its state or without, and however much of the journal it had
    seen by then: the store ends as if nothing had happened, and each (key, step) is on the job's curve once."""
    path = Path("/dev/shm") / "projection-journal"
    blob = journal_of(plan)
    path.write_bytes(blob)
    undisturbed = Store()
    drain(path, SenderState(), undisturbed)
    store, state = Store(), SenderState()
    length = 0
    for budget, torn, forgets in deaths:
        length = seen.draw(st.integers(length, len(blob)))
        path.write_bytes(blob[:length])
        store.budget, store.torn = budget, torn
        saved = replace(state)
        try:
            drain(path, state, store)
        except Killed:
            state = SenderState() if forgets else replace(saved, cursor=state.cursor)
    path.write_bytes(blob)
    store.budget = None
    drain(path, state, store)
    assert store.runs == undisturbed.runs
    steps = [point[1] for point in store.runs["job"]["metrics"] if point[0] == "loss"]
    assert len(steps) == len(set(steps))
    assert sorted(steps) == list(range(1, max(steps, default=0) + 1)), "the surviving curve has no gap"
    assert store.runs["job"]["status"] == "FINISHED"
    assert all(run["status"] != "RUNNING" for run in store.runs.values())
    path.unlink()


def operations_of(*entries: dict[str, Any]) -> list[Operation]:
    projection = Projection({})
    found: list[Operation] = []
    for entry in ({"kind": "header", "job_id": "j"}, {"kind": "job"}, *entries):
        found += projection.add({"time": 1.0, **entry})
    return found


def test_what_comes_before_the_job_waits_for_it() -> None:
    """An owner written first does not reach a run that is not open."""
    projection = Projection({})
    assert projection.add({"kind": "owner", "pid": 1, "host": "h"}) == []
    first, *rest = projection.add({"kind": "job", "time": 2.0})
    assert isinstance(first, OpenRun)
    assert any(isinstance(each, SetTags) and each.tags.get("resilience.pid") == 1 for each in rest)


def test_a_preempted_job() -> None:
    """KILLED, its open attempt too; points after the last checkpoint are written."""
    found = operations_of(
        {"kind": "attempt", "attempt": 1},
        {"kind": "points", "attempt": 1, "points": [["loss", 1, 0.5, 1]]},
        {"kind": "job_ended", "outcome": "preempted", "exit_code": 75},
    )
    assert [(each.run, each.status) for each in found if isinstance(each, EndRun)] == [(1, "KILLED"), ("job", "KILLED")]
    assert LogMetrics("job", [("loss", 1, 0.5, 1)]) in found


def test_differences_on_replay_are_said_by_attempt() -> None:
    """Once for each key, with the first of them."""
    points = [["loss", 1, 0.5, 1], ["loss", 2, 0.4, 1]]
    found = operations_of(
        {"kind": "points", "attempt": 1, "points": points},
        {"kind": "checkpoint", "step": 2},
        {"kind": "attempt_ended", "attempt": 1, "status": "FAILED"},
        {"kind": "attempt", "attempt": 2, "step": 0},
        {"kind": "points", "attempt": 2, "points": [["loss", 1, 0.5, 9], ["loss", 2, 0.3, 9]]},
        {"kind": "attempt_ended", "attempt": 2, "status": "FINISHED"},
        {"kind": "job_ended", "outcome": "recovered"},
    )
    (said,) = [each for each in found if isinstance(each, Say)]
    assert (said.attempt, said.data["step"], said.data["count"]) == (2, 2, 1)


def test_unknown_and_malformed_entries_cost_themselves_alone(tmp_path: Path) -> None:
    """A future kind is passed over; nonsense is noted; delivery goes on."""
    path = tmp_path / "journal"
    entries: list[dict[str, Any]] = [
        {"kind": "header", "job_id": "j"}, {"kind": "job"}, {"kind": "hologram", "a": 1},
        {"kind": "checkpoint", "step": "many"}, {"kind": "points", "points": [["x"], 5]},
        {"kind": "tags", "tags": {"after": "1"}},
    ]  # fmt: skip
    path.write_bytes(b"".join(encode(entry) for entry in entries))
    store, state = Store(), SenderState()
    drain(path, state, store)
    assert store.runs["job"]["tags"]["after"] == "1"
    assert [problem["what"] for problem in state.problems] == ["journal entry checkpoint"]


def test_coalescing_keeps_order() -> None:
    """Neighbours on one run become one call; nothing moves across a run's opening or end."""
    opening = OpenRun(run=1, local_id="x", name=None, started_ms=0)
    merged = coalesce([
        SetTags("job", {"a": 1}), LogMetrics("job", [("l", 1, 1.0, 1)]), SetTags("job", {"a": 2, "b": 3}),
        LogMetrics("job", [("l", 2, 1.0, 1)]), opening, SetTags("job", {"a": 4}), LogMetrics(1, []),
    ])  # fmt: skip
    assert merged == [
        SetTags("job", {"a": 2, "b": 3}),
        LogMetrics("job", [("l", 1, 1.0, 1), ("l", 2, 1.0, 1)]),
        opening,
        SetTags("job", {"a": 4}),
    ]


def test_secrets_of_a_command_line_and_a_store_stay_out() -> None:
    entry = {"kind": "job", "tracking_uri": "https://user:hunter2hunter2@host/x", "command": ["x", "ghp_" + "a" * 36]}
    line = documents.event_line(entry)
    assert line is not None
    assert "hunter2" not in line and "ghp_" not in line
    assert json.loads(line)["kind"] == "job"
    assert "hunter2" not in limits.value("https://user:hunter2hunter2@host/x", limits.PARAM)[0]
