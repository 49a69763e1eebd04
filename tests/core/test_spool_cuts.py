"""SIGKILL between any two journal operations, or in the middle of one; of the worker, of its successor, of the sender:
nothing that was on disk is lost, nothing is in the store twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_resilience.spool.codec import encode, read
from mlflow_resilience.spool.journal import Journal
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.tracking.operations import EndRun, LogMetrics, LogParams, OpenRun, Operation, SendText, SetTags
from mlflow_resilience.tracking.projection import Projection
from mlflow_resilience.tracking.pump import Pump
from mlflow_resilience.tracking.state import SenderState

LAST, BATCH, SAVED_EVERY = 24, 3, 6
Entry = dict[str, Any]


def value(step: int) -> float:
    return 1.0 / step


def begun(record: JobRecord, now: float) -> Iterator[Entry]:
    """The first words of a job, as far as they are not there yet."""
    if not record.header:
        yield {"kind": "header", "job_id": "j"}
    if not record.job:
        yield {"kind": "job", "job_id": "j", "started": now, "params": {"epochs": 3}, "tags": {"mine": "1"}}


def life(record: JobRecord, now: float) -> Iterator[Entry]:
    """What a process appends that goes on from what the journal holds, to the job's end."""
    yield from begun(record, now)
    earlier = record.attempts[-1] if record.attempts else None
    step = max((int(entry["step"]) for entry in record.checkpoints), default=0)
    number = 1 if earlier is None else earlier.number + 1
    if earlier is not None and earlier.status is None:
        fault = {"exception": "SIGKILL", "message": "killed", "position": {"global_step": earlier.last_step}}
        judged = {"failure_class": "process_death", "in_place": False, "attempt": earlier.number}
        if earlier.fault is None:
            yield {"kind": "fault", "number": len(record.faults) + 1, "fault": fault, **judged}
        yield {"kind": "attempt_ended", "attempt": earlier.number, "status": "FAILED", "step": earlier.last_step}
    yield {"kind": "attempt", "attempt": number, "step": step, "settings": {"accumulation": number}}
    if earlier is not None:
        yield {"kind": "rolled_back", "attempt": number, "step": step}
    for first in range(step + 1, LAST + 1, BATCH):
        steps = range(first, min(first + BATCH, LAST + 1))
        points = [["loss", each, value(each), int(now * 1000) + each] for each in steps]
        yield {"kind": "points", "attempt": number, "points": points}
        yield {"kind": "gauges", "points": [["gradient/global_norm", each, 2.0, each] for each in steps]}
        if steps[-1] % SAVED_EVERY == 0:
            yield {"kind": "checkpoint", "attempt": number, "step": steps[-1], "epoch": 0}
            yield {"kind": "params", "run": "job", "params": {f"at_{steps[-1]}": steps[-1]}}
            yield {"kind": "tags", "run": "job", "tags": {f"at_{steps[-1]}": f"life {number}"}}
    yield {"kind": "attempt_ended", "attempt": number, "status": "FINISHED", "step": LAST}
    yield {"kind": "job_ended", "outcome": "recovered" if number > 1 else "clean", "exit_code": 0}


class Store:
    """What MLflow keeps: points by all that they are, so that the same one sent twice is one; the newest tag."""

    def __init__(self) -> None:
        self.points: dict[Any, set[tuple[Any, ...]]] = {}
        self.params: dict[Any, dict[str, Any]] = {}
        self.tags: dict[Any, dict[str, Any]] = {}
        self.status: dict[Any, str] = {}
        self.texts: set[str] = set()

    def execute(self, operation: Operation) -> None:
        if isinstance(operation, OpenRun):
            self.status.setdefault(operation.run, "RUNNING")
        elif isinstance(operation, LogMetrics):
            self.points.setdefault(operation.run, set()).update(map(tuple, operation.points))
        elif isinstance(operation, LogParams):
            known = self.params.setdefault(operation.run, {})
            assert all(known.get(key, each) == each for key, each in operation.params.items()), "a param changed"
            known.update(operation.params)
        elif isinstance(operation, SetTags):
            self.tags.setdefault(operation.run, {}).update(operation.tags)
        elif isinstance(operation, EndRun):
            self.status[operation.run] = operation.status
        elif isinstance(operation, SendText):
            self.texts.add(operation.path)


class Died(Exception):
    """The sender was killed."""


def deliver(journal: Path, store: Store, state: SenderState, lives: Iterator[int]) -> None:
    """One sender after another, each killed after so many operations: in the midst of one, or between two saves."""
    for operations in lives:
        left = [operations]

        def execute(operation: Operation, left: list[int] = left) -> None:
            store.execute(operation)  # and it is not known any more that it was
            left[0] -= 1
            if left[0] < 0:
                raise Died

        pump = Pump(journal, Projection(), state, execute)
        try:
            while pump.step():
                pass
        except Died:
            continue
        return
    raise AssertionError("never a sender that lives")


def sender_lives(deaths: list[int]) -> Iterator[int]:
    yield from deaths
    yield 10**9


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.floats(0, 1), min_size=1, max_size=3),
    deaths=st.lists(st.integers(0, 12), max_size=4),
    early=st.booleans(),
)
def test_whatever_is_killed_the_store_holds_each_thing_once(cuts: list[float], deaths: list[int], early: bool) -> None:
    """The worker is killed so that the file ends anywhere, a torn last entry included; the next process goes on. The
    sender follows meanwhile, or comes late."""
    journal, store, state = Path(f"/dev/shm/cuts-{os.getpid()}"), Store(), SenderState()
    journal.write_bytes(b"")
    lives = sender_lives(deaths)
    try:
        for number, cut in enumerate([*cuts, 1.0]):
            record = JobRecord.read(journal)
            if record.ended is None:
                now = 1000.0 * (number + 1)
                more = [encode({"time": now + at, "pid": number, **each}) for at, each in enumerate(life(record, now))]
                whole = b"".join(more)
                with journal.open("ab") as file:
                    file.write(whole[: round(cut * len(whole))])
            if early:
                deliver(journal, store, state, iter([*deaths, 10**9]))
        deliver(journal, store, state, lives)
        check(JobRecord.read(journal), store)
    finally:
        journal.unlink()


def check(record: JobRecord, store: Store) -> None:
    curve = sorted((step, each) for key, step, each, _ in store.points["job"] if key == "loss")
    assert curve == [(step, value(step)) for step in range(1, LAST + 1)]
    norms = sorted(step for key, step, *_ in store.points["job"] if key == "gradient/global_norm")
    assert norms == list(range(1, LAST + 1))
    for attempt in record.attempts:
        on_disk = sorted((step, each, ms) for step, each, ms in attempt.points.get("loss", ()))
        sent = sorted((step, each, ms) for _, step, each, ms in store.points.get(attempt.number, ()))
        assert sent == on_disk, "of an attempt, each point that was on disk once"
        assert store.status[attempt.number] == attempt.status
        assert store.params[attempt.number]["accumulation"] == attempt.number
    saved = {f"at_{step}" for step in range(SAVED_EVERY, LAST + 1, SAVED_EVERY)}
    assert set(store.params["job"]) == {"epochs", *saved} - _never_written(record)
    assert store.tags["job"]["mine"] == "1"
    assert store.tags["job"]["resilience.attempts"] == len(record.attempts)
    assert store.tags["job"]["resilience.faults"] == len(record.faults) == len(store.texts)
    assert store.tags["job"]["resilience.outcome"] == record.outcome
    assert store.status["job"] == "FINISHED"


def _never_written(record: JobRecord) -> set[str]:
    """A process that was killed between a checkpoint and what it says of it never said it."""
    return {f"at_{entry['step']}" for entry in record.checkpoints} - set(record.params)


DURABLE = {"header", "job", "attempt", "checkpoint", "attempt_ended", "job_ended"}


def test_killed_after_any_operation_what_was_acknowledged_is_on_disk(tmp_path: Path) -> None:
    """A real process with a real journal, killed after its first operation, its second, and so on to the last."""
    entries = list(life(JobRecord(), 5.0))
    for count in range(1, len(entries) + 1):
        path = tmp_path / f"journal-{count}"
        child = os.fork()
        if child == 0:
            journal = Journal(path)
            for entry in entries[:count]:
                fields = {key: each for key, each in entry.items() if key != "kind"}
                journal.append(entry["kind"], durable=entry["kind"] in DURABLE, **fields)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        kinds = [entry["kind"] for entry, _ in read(path)]
        wanted = [entry["kind"] for entry in entries[:count]]
        acknowledged = max((at + 1 for at, kind in enumerate(wanted) if kind in DURABLE), default=0)
        assert acknowledged <= len(kinds) <= count
        assert kinds == wanted[: len(kinds)]
