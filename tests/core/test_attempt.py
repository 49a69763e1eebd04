"""The record of attempts is a fold over the journal: whoever reads it holds the same strikes and ceiling."""

from __future__ import annotations

from typing import Any

from mlflow_resilience.core.attempt import AttemptLog, Settings


def fault(failure_class: str, step: int | None, number: int = 1) -> dict[str, Any]:
    position = None if step is None else {"global_step": step}
    entry = {"failure_class": failure_class, "number": number, "attempt": 1, "fault": {"position": position}}
    return {"kind": "fault", **entry}


def strikes(log: AttemptLog, failure_class: str, step: int) -> int:
    return log.standing(failure_class, step).strikes


def test_settings_through_json_and_back() -> None:
    """Settings survive the journal, and keys of a newer format are ignored."""
    settings = Settings(accumulation=4, skipped_batches=(3, 9))
    assert Settings.from_dict({**settings.to_dict(), "skipped_batches": [3, 9], "newer": 1}) == settings


def test_an_advance_wipes_the_strikes_of_its_class() -> None:
    """A fault later than the last of its class begins anew; others keep theirs."""
    log = AttemptLog.read([fault("a", 10), fault("a", 10), fault("b", 10), fault("a", 5)])
    assert strikes(log, "a", 10) == 3
    assert strikes(log, "a", 11) == 0
    assert strikes(log, "b", 10) == 1
    assert strikes(log, "c", 0) == 0
    log.add(fault("a", 11))
    assert strikes(log, "a", 11) == 1


def test_a_fault_without_a_position_is_no_advance() -> None:
    """Deaths before anything is known count together."""
    assert strikes(AttemptLog.read([fault("a", None), fault("a", None)]), "a", 0) == 2


def test_attempts_and_failures() -> None:
    """The open attempt, the settings in force, and what has failed or is bound to."""
    log = AttemptLog.read([{"kind": "header", "job_id": "j"}, {"kind": "unheard of"}, {}])
    assert (log.job_id, log.current, log.is_open) == ("j", 1, False)
    log.add({"kind": "attempt", "attempt": 1, "settings": {"accumulation": 2}, "time": 5.0})
    assert (log.current, log.is_open, log.settings.accumulation) == (1, True, 2)
    log.add({"kind": "decision", "verdict": "continue", "attempt": 1, "opens_attempt": True, "settings": {}})
    assert (log.failed, log.settings) == ({1}, Settings())
    log.add({"kind": "attempt_ended", "attempt": 1, "status": "FAILED"})
    assert (log.current, log.is_open) == (2, False)
    log.add({"kind": "attempt", "attempt": 2})
    log.add({"kind": "attempt_ended", "attempt": 1, "status": "KILLED"})
    assert log.is_open
    log.add({"kind": "decision", "verdict": "stop", "attempt": 2})
    log.add({"kind": "decision", "verdict": "leave", "attempt": 3})
    assert log.failed == {1, 2}


def test_rungs_are_counted_with_their_class() -> None:
    """A decision's rung is remembered until its class advances."""
    decision = {"kind": "decision", "verdict": "continue", "attempt": 1, "failure_class": "a", "rung": 1}
    log = AttemptLog.read([fault("a", 10), decision, decision])
    assert log.standing("a", 10).used == {1: 2}
    assert log.standing("a", 11).used == {}


def test_to_leave_a_batch_out_is_no_advance() -> None:
    """The next batch that fails too is the same trouble; one further on is another."""
    skipping = {"kind": "decision", "verdict": "continue", "attempt": 1, "failure_class": "a", "rung": 0}
    log = AttemptLog.read([fault("a", 10), {**skipping, "settings": {"skipped_batches": [11]}}])
    assert log.standing("a", 11).used == {0: 1}
    assert log.standing("a", 12).used == {}
    log.add(fault("a", 11))
    log.add({**skipping, "settings": {"skipped_batches": [11, 12]}})
    assert (log.standing("a", 12).strikes, log.standing("a", 12).used) == (2, {0: 2})


def test_time_and_records() -> None:
    """Lost seconds and quarantined records add up; steps remember when they were last reached."""
    log = AttemptLog.read(
        [
            {"kind": "attempt", "attempt": 1, "time": 100.0},
            {"kind": "checkpoint", "step": 50, "time": 150.0},
            {"kind": "lost", "seconds": 2.5},
            {"kind": "lost"},
            {"kind": "event", "name": "quarantine", "data": {"records": [{}, {}, {}]}},
            {"kind": "event", "name": "quarantine"},
            {"kind": "event", "name": "other"},
        ]
    )
    assert (log.lost_seconds, log.quarantined) == (2.5, 4)
    assert (log.last_reached(50), log.last_reached(7)) == (150.0, 100.0)
    log.add({"kind": "attempt", "attempt": 2, "time": 170.0})
    assert log.last_reached(50) == 150.0, "an attempt that began in place did not go back"
    log.add({"kind": "rolled_back", "time": 180.0})
    assert log.last_reached(50) == 180.0


def test_only_recent_checkpoints_are_remembered() -> None:
    """The record of a long job stays small."""
    log = AttemptLog.read({"kind": "checkpoint", "step": step, "time": float(step)} for step in range(100))
    assert sorted(log.reached) == list(range(84, 100))


def test_nothing_is_known_of_an_empty_journal() -> None:
    """Before the first attempt no step was reached."""
    assert AttemptLog().last_reached(3) == 0.0
