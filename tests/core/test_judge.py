"""One road from a fault to a decision, whoever saw the fault; the journal has it all."""

from __future__ import annotations

from typing import Any

import pytest

from mlflow_resilience.core.attempt import AttemptLog, Settings
from mlflow_resilience.core.fault import Fault, Position, describe
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.core.policy import Capabilities, Policy
from mlflow_resilience.recoveries import BUILT_IN

STEP = Capabilities(in_place=True, new_process=True)
LOOP = Capabilities(new_process=True)


class MemoryJournal:
    """Keeps its entries, and tells the time."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.now = 1000.0

    def append(self, kind: str, /, durable: bool = False, **fields: Any) -> None:
        self.entries.append({"kind": kind, "time": self.now, "durable": durable, **fields})

    def clock(self) -> float:
        return self.now

    def kinds(self) -> list[str]:
        return [entry["kind"] for entry in self.entries]

    def last(self, kind: str) -> dict[str, Any]:
        return [entry for entry in self.entries if entry["kind"] == kind][-1]


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


def judge_of(journal: MemoryJournal, policy: Policy | None = None, log: AttemptLog | None = None) -> Judge:
    return Judge(
        journal, policy or Policy(), BUILT_IN, log, memory=lambda: {"process_rss_mb": 1.0}, clock=journal.clock
    )


def at(step: int, **facts: Any) -> Fault:
    facts = {"exception": "RuntimeError", "message": "x", **facts}
    return Fault(phase="step", position=Position(global_step=step, epoch=1), **facts)


OUT_OF_MEMORY = {"exception": "MemoryError", "message": "", "batch_size": 32}
UNREACHABLE = {"exception": "OSError", "message": "[Errno 5] Input/output error"}


def test_fault_and_decision_are_written_with_their_attempt(journal: MemoryJournal) -> None:
    """The journal has fault, class, hint, memory, decision and the attempt's end, in this order."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    decision = judge.judge(at(60), LOOP)
    assert journal.kinds() == ["attempt", "fault", "decision", "attempt_ended"]
    fault = journal.last("fault")
    assert (fault["attempt"], fault["number"], fault["in_place"]) == (1, 1, False)
    assert (fault["failure_class"], fault["failure_domain"]) == ("unknown", "unknown")
    assert fault["hint"] and fault["memory"] == {"process_rss_mb": 1.0}
    assert Fault.from_dict(fault["fault"]) == at(60)
    written = journal.last("decision")
    assert (written["durable"], written["number"], written["basis"]) == (True, 1, "first")
    assert written["text"] == decision.text
    assert (journal.last("attempt_ended")["status"], journal.last("attempt_ended")["step"]) == ("FAILED", 60)


def test_in_place_with_all_settings_kept_stays_in_its_attempt(journal: MemoryJournal) -> None:
    """An error that is waited out opens no attempt; the wait is lost time."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    assert judge.judge(at(60, **UNREACHABLE), STEP).resumption == "in_place"
    assert journal.kinds() == ["attempt", "fault", "decision", "lost"]
    assert (journal.last("lost")["seconds"], journal.last("lost")["steps"]) == (1.0, 0)
    assert judge.log.failed == set()


def test_in_place_with_other_settings_is_another_attempt(journal: MemoryJournal) -> None:
    """Micro-batches end the attempt and begin the next, at the failed step's own boundary."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    judge.judge(at(60, **OUT_OF_MEMORY), STEP)
    assert journal.kinds() == ["attempt", "fault", "decision", "attempt_ended", "attempt"]
    attempt = journal.last("attempt")
    assert (attempt["attempt"], attempt["step"], attempt["settings"]["accumulation"]) == (2, 60, 2)
    assert judge.settings.accumulation == 2


def test_going_back_counts_what_is_lost(journal: MemoryJournal) -> None:
    """The next attempt says where it begins, what time and steps were lost, and that the curve goes back."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    judge.log.add({"kind": "checkpoint", "step": 50, "time": 1050.0})
    journal.now = 1070.0
    judge.judge(at(60), LOOP)
    journal.now = 1075.0
    judge.begin(Position(global_step=50), "again")
    assert journal.kinds()[-3:] == ["lost", "attempt", "rolled_back"]
    assert (journal.last("lost")["seconds"], journal.last("lost")["steps"]) == (25.0, 10)
    assert (journal.last("rolled_back")["step"], journal.last("rolled_back")["attempt"]) == (50, 2)
    assert judge.log.lost_seconds == 25.0


def test_a_decision_is_made_once_for_an_exception(journal: MemoryJournal) -> None:
    """What the trainer judged and let go is not judged again by the loop; a second time it is a fault of its own."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    error = RuntimeError("x")
    let_go = judge.in_step(error, at(60), STEP)
    assert let_go.resumption == "roll_back"
    assert judge.out_of_step(error, describe, LOOP) is let_go
    assert judge.log.faults == 1
    judge.begin(Position(), "again")
    assert judge.out_of_step(error, lambda error: at(70), LOOP) is not let_go
    assert judge.log.faults == 2


def test_what_is_handled_in_place_leaves_no_mark(journal: MemoryJournal) -> None:
    """The same exception object, raised again elsewhere, is judged anew."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    error = OSError(5, "Input/output error")
    judge.in_step(error, at(60, **UNREACHABLE), STEP)
    judge.out_of_step(error, lambda error: at(60, **UNREACHABLE), LOOP)
    assert judge.log.faults == 2


def test_leaving_and_stopping_end_the_attempt(journal: MemoryJournal) -> None:
    """A preempted attempt is KILLED, one that stops FAILED; only the latter counts."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    judge.judge(at(60, exception="KeyboardInterrupt"), LOOP)
    assert (journal.last("attempt_ended")["status"], judge.log.failed) == ("KILLED", set())
    judge.begin(Position(global_step=60), "resumed")
    assert "lost" not in journal.kinds(), "an interruption loses nothing"
    judge.judge(at(60, exception="NameError", message="name 'x' is not defined"), LOOP)
    assert (journal.last("attempt_ended")["status"], judge.log.failed) == ("FAILED", {2})


def test_a_fault_between_attempts_is_an_attempts_own(journal: MemoryJournal) -> None:
    """When what was to be done before the next attempt fails, that is an attempt that failed: it counts too."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    judge.judge(at(60), LOOP)
    judge.judge(at(60, exception="OSError", message="[Errno 5] Input/output error"), LOOP)
    assert [entry["attempt"] for entry in journal.entries if entry["kind"] == "attempt"] == [1, 2]
    assert judge.log.failed == {1, 2}


def test_an_attempt_that_was_lost_has_failed(journal: MemoryJournal) -> None:
    """A process that vanished left its attempt open: the next to begin ends it."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    judge.begin(Position(global_step=10), "resumed")
    assert journal.kinds() == ["attempt", "attempt_ended", "lost", "attempt", "rolled_back"]
    assert judge.log.failed == {1}


def test_other_settings_without_a_fault(journal: MemoryJournal) -> None:
    """Micro-batches grown back end an attempt that has done its part."""
    judge = judge_of(journal, log=AttemptLog(settings=Settings(accumulation=4)))
    judge.begin(Position(), "start")
    judge.change(Settings(accumulation=2), Position(global_step=200), "200 clean steps")
    assert journal.last("attempt_ended")["status"] == "FINISHED"
    assert (judge.settings.accumulation, judge.log.failed) == (2, set())
    judge.end("FINISHED", Position(global_step=300))
    judge.begin(Position(global_step=300), "more epochs", Settings())
    assert judge.settings == Settings()


def test_no_secret_is_written(journal: MemoryJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults made elsewhere, such as a supervisor's, are redacted before they are stored."""
    monkeypatch.setenv("DB_PASSWORD", "correct-horse")
    judge = judge_of(journal)
    judge.judge(Fault(exception="SIGKILL", signal=9, output_tail="password is correct-horse"), LOOP)
    assert "correct-horse" not in str(journal.entries)


def test_whoever_reads_the_journal_holds_the_same_record(journal: MemoryJournal) -> None:
    """A supervisor or a new worker that folds the entries has the record of the process that wrote them."""
    judge = judge_of(journal)
    judge.begin(Position(), "start")
    judge.judge(at(60, **OUT_OF_MEMORY), STEP)
    judge.judge(at(61, **UNREACHABLE), STEP)
    judge.judge(at(62), LOOP)
    judge.begin(Position(global_step=50), "again")
    assert AttemptLog.read(journal.entries) == judge.log
