"""The loop: fakes that really train, fail and go back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.fault import Fault, Position, describe
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.core.loop import Leave, NeedsNewProcess, train
from mlflow_resilience.core.policy import Capabilities, Policy
from mlflow_resilience.errors import RecoveryExhausted
from mlflow_resilience.recoveries import BUILT_IN

Fail = Callable[[], BaseException]


class Entries:
    """A journal in memory."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    def append(self, kind: str, /, durable: bool = False, **fields: Any) -> None:
        self.all.append({"kind": kind, **fields})

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [entry for entry in self.all if entry["kind"] == kind]


class FakeTrainer:
    """Counts steps to 100, saves every 10, and raises what it is given, when it comes to the step given with it."""

    def __init__(
        self, faults: Iterable[tuple[int, Fail]] = (), *, in_prepare: Iterable[Fail] = (), new_process: bool = False
    ) -> None:
        self.faults = list(faults)
        self.in_prepare = list(in_prepare)
        self.capabilities = Capabilities(new_process=new_process)
        self.position = Position()
        self.saved = Position()
        self.prepared: list[str | None] = []
        self.handling: list[object] = []  # what was being handled whenever anything was done
        self.ways_made = 0
        self.too_full_after = 0

    def prepare(self, decision: Decision | None) -> Position:
        self.handling.append(sys.exc_info()[1])
        self.prepared.append(decision.resumption if decision else None)
        if decision is not None and self.in_prepare:
            raise self.in_prepare.pop(0)()
        self.position = self.saved
        return self.position

    def attempt(self) -> str:
        self.handling.append(sys.exc_info()[1])
        while self.position.global_step < 100:
            if self.faults and self.faults[0][0] == self.position.global_step + 1:
                raise self.faults.pop(0)[1]()
            self.position = Position(global_step=self.position.global_step + 1)
            if self.position.global_step % 10 == 0:
                self.saved = self.position
        return "trained"

    def make_way(self) -> bool:
        self.handling.append(sys.exc_info()[1])
        self.ways_made += 1
        return self.ways_made == self.too_full_after

    def describe(self, error: BaseException) -> Fault:
        return describe(error, phase="step", position=self.position, device="CPU", batch_size=32)

    def sleep(self, seconds: float) -> None:
        self.handling.append(sys.exc_info()[1])


def fit(trainer: FakeTrainer, policy: Policy | None = None, entries: Entries | None = None) -> object:
    judge = Judge(entries or Entries(), policy or Policy(), BUILT_IN)
    return train(trainer, judge, sleep=trainer.sleep)


def odd() -> BaseException:
    return RuntimeError("the reactor melted")


def unreachable() -> BaseException:
    return OSError(5, "Input/output error")


def test_undisturbed() -> None:
    """Without a fault there is one attempt, and it finishes."""
    entries = Entries()
    assert fit(FakeTrainer(), entries=entries) == "trained"
    assert [entry["kind"] for entry in entries.all] == ["attempt", "attempt_ended"]
    assert entries.of("attempt_ended")[0]["status"] == "FINISHED"


def test_recovers_from_several_faults() -> None:
    """Each fault costs an attempt, and training ends as if nothing had been."""
    trainer, entries = FakeTrainer([(12, odd), (35, unreachable), (61, odd)]), Entries()
    assert fit(trainer, entries=entries) == "trained"
    assert [entry["status"] for entry in entries.of("attempt_ended")] == ["FAILED"] * 3 + ["FINISHED"]
    assert [entry["step"] for entry in entries.of("attempt")] == [0, 10, 30, 60]
    assert trainer.prepared == [None, "roll_back", "roll_back", "roll_back"]


def test_a_stop_class_comes_out_untouched() -> None:
    """The very exception, without ours around it, after one attempt."""
    error = NameError("name 'x' is not defined")
    trainer = FakeTrainer([(5, lambda: error)])
    with pytest.raises(NameError) as raised:
        fit(trainer)
    assert raised.value is error
    assert error.__cause__ is None and error.__context__ is None
    assert trainer.prepared == [None]


def test_the_control_arm_raises_the_fault_itself() -> None:
    """Without recovery the exception is that of plain Keras."""
    with pytest.raises(RuntimeError, match="reactor"):
        fit(FakeTrainer([(5, odd)]), Policy.control())


def test_a_spent_recovery_is_raised_from_the_last_fault() -> None:
    """The caller learns that recovery was tried, and from what."""
    with pytest.raises(RecoveryExhausted, match="unknown") as raised:
        fit(FakeTrainer([(5, odd), (5, odd)]))
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_interruption_leaves() -> None:
    """The edge gets the exception, to save and raise it; the attempt is KILLED."""
    entries = Entries()
    outcome = fit(FakeTrainer([(5, KeyboardInterrupt)]), entries=entries)
    assert isinstance(outcome, Leave)
    assert isinstance(outcome.error, KeyboardInterrupt)
    assert outcome.decision.verdict == "leave"
    assert entries.of("attempt_ended")[0]["status"] == "KILLED"


def test_interruption_while_waiting_leaves_too() -> None:
    """Ctrl-C during a wait is met by the same handler."""
    trainer = FakeTrainer([(5, unreachable)])

    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    outcome = train(trainer, Judge(Entries(), Policy(), BUILT_IN), sleep=sleep)
    assert isinstance(outcome, Leave)


def test_what_needs_a_new_process_is_left_to_the_edge() -> None:
    """The loop neither waits nor goes on in this process."""
    trainer = FakeTrainer([(5, lambda: RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS"))], new_process=True)
    outcome = fit(trainer)
    assert isinstance(outcome, NeedsNewProcess)
    assert outcome.decision.failure_class == "device_fault"
    assert trainer.prepared == [None]


def test_a_process_that_fills_up_is_left() -> None:
    """Memory is given back before each retry; where too much is left, the edge starts a new process."""
    trainer = FakeTrainer([(12, odd), (35, odd), (61, odd)])
    trainer.too_full_after = 2
    outcome = fit(trainer)
    assert isinstance(outcome, NeedsNewProcess)
    assert outcome.decision.resumption == "roll_back"
    assert (trainer.ways_made, trainer.prepared) == (2, [None, "roll_back"])


def test_a_fault_in_an_action_meets_the_same_handler() -> None:
    """When going back fails, that is judged as any other fault, and counts as an attempt."""
    trainer, entries = FakeTrainer([(12, odd)], in_prepare=[unreachable]), Entries()
    assert fit(trainer, entries=entries) == "trained"
    assert [entry["failure_class"] for entry in entries.of("fault")] == ["unknown", "transient_io"]
    assert [entry["attempt"] for entry in entries.of("attempt")] == [1, 2, 3]


def test_an_exit_asked_for_is_no_fault() -> None:
    """`sys.exit` in a callback ends the program, as it would without us."""
    entries = Entries()
    with pytest.raises(SystemExit):
        fit(FakeTrainer([(5, lambda: SystemExit(3))]), entries=entries)
    assert entries.of("fault") == []
    assert entries.of("attempt_ended")[0]["status"] == "KILLED"
    with pytest.raises(SystemExit):
        fit(FakeTrainer([(5, odd)], in_prepare=[SystemExit]), entries=(between := Entries()))
    assert [entry["status"] for entry in between.of("attempt_ended")] == ["FAILED"], "no attempt was open by then"


def test_a_decision_made_in_the_step_is_kept() -> None:
    """What the trainer let go after its own judgment is not judged again."""
    entries = Entries()
    judge = Judge(entries, Policy(), BUILT_IN)

    class InStep(FakeTrainer):
        def attempt(self) -> str:
            try:
                return super().attempt()
            except RuntimeError as error:
                judge.in_step(error, self.describe(error), Capabilities(in_place=True))
                raise

    assert train(InStep([(12, odd)]), judge) == "trained"
    assert len(entries.of("fault")) == 1


kinds = st.sampled_from(
    [odd, unreachable, MemoryError, KeyError, lambda: RuntimeError("barrier timed out: task 1 lost")]
)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 100), kinds), max_size=20),
    st.lists(kinds, max_size=5),
    st.booleans(),
    st.integers(1, 5),
)
def test_never_acts_while_handling(
    faults: list[tuple[int, Fail]], in_prepare: list[Fail], new_process: bool, ceiling: int
) -> None:
    """Whatever fails and wherever: no action, wait or attempt ever runs inside an `except` block, where the traceback
    would keep the failed step's tensors; and no more attempts fail than may."""
    trainer, entries = FakeTrainer(faults, in_prepare=in_prepare, new_process=new_process), Entries()
    try:
        fit(trainer, Policy(max_attempts=ceiling), entries)
    except RecoveryExhausted as error:
        assert error.__cause__ is not None
    assert trainer.handling
    assert set(trainer.handling) == {None}
    assert sum(entry["status"] == "FAILED" for entry in entries.of("attempt_ended")) <= ceiling
