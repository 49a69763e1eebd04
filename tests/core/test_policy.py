"""Go on, how, after how long: decided from values alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlflow_resilience.core.attempt import AttemptLog, Settings
from mlflow_resilience.core.decision import BASES, Decision, in_words
from mlflow_resilience.core.failure import Recovery, Rung, classify
from mlflow_resilience.core.fault import Fault, Position
from mlflow_resilience.core.policy import Backoff, Capabilities, Policy, decide
from mlflow_resilience.errors import UsageError
from mlflow_resilience.recoveries import BUILT_IN

KNOWN = {recovery.failure_class: recovery for recovery in BUILT_IN}
STEP = Capabilities(in_place=True, new_process=True)
LOOP = Capabilities(new_process=True)
ALONE = Capabilities()


def fault(step: int = 5, **facts: Any) -> Fault:
    return Fault(**{"exception": "E", "phase": "step", "position": Position(global_step=step), **facts})


def judged(
    name: str,
    *,
    at: Fault | None = None,
    log: AttemptLog | None = None,
    policy: Policy | None = None,
    can: Capabilities = STEP,
    force: Settings | None = None,
) -> Decision:
    return decide(at or fault(), KNOWN[name], log or AttemptLog(), force or Settings(), policy or Policy(), can)


def note(log: AttemptLog, at: Fault, decision: Decision) -> None:
    """What the journal would have told the record."""
    attempt = log.current
    log.add({"kind": "attempt", "attempt": attempt, "settings": log.settings.to_dict()}) if not log.is_open else None
    log.add({"kind": "fault", "failure_class": decision.failure_class, "attempt": attempt, "fault": at.to_dict()})
    log.add({"kind": "decision", "attempt": attempt, **decision.to_dict()})
    if decision.opens_attempt or decision.verdict == "stop":
        log.add({"kind": "attempt_ended", "attempt": attempt, "status": "FAILED"})


def run(
    name: str, steps: list[int], *, can: Capabilities = STEP, policy: Policy | None = None, **facts: Any
) -> list[Decision]:
    """The decisions about one fault after another, until one stops."""
    log, decisions = AttemptLog(), list[Decision]()
    for step in steps:
        at = fault(step, **facts)
        decision = judged(name, at=at, log=log, can=can, policy=policy, force=log.settings)
        decisions.append(decision)
        note(log, at, decision)
        if decision.verdict != "continue":
            break
    return decisions


def told(decisions: list[Decision]) -> list[str]:
    return [decision.resumption or decision.basis for decision in decisions]


# -- the ladders ------------------------------------------------------------------------------------------------------


def test_device_memory_splits_in_place_then_grows_in_a_new_process() -> None:
    """Pieces double at the same place; when a piece is one record, memory growth is tried; then it does not fit."""
    decisions = run(
        "device_oom", [5] * 9, batch_size=4, message="OOM when allocating tensor with shape[9] and type float"
    )
    assert told(decisions) == ["in_place", "in_place", "new_process", "no_progress"]
    assert [decision.settings.accumulation for decision in decisions[:3]] == [2, 4, 4]
    assert decisions[2].settings.memory_growth
    assert "does not fit" in decisions[-1].text


def test_memory_under_jit_goes_to_a_new_process() -> None:
    """After an out-of-memory error under jit nothing of this process is used again."""
    first = judged("device_oom", at=fault(jit=True))
    assert (first.resumption, first.settings.accumulation) == ("new_process", 2)
    assert judged("device_oom", at=fault(jit=True), can=ALONE).basis == "no_new_process"
    assert judged("host_oom", at=fault(jit=True, phase="data"), can=ALONE).resumption == "roll_back"


def test_host_memory() -> None:
    """Micro-batches, then less input in a new process, or by rolling back where nobody starts one."""
    spent = Settings(accumulation=4)
    decision = judged("host_oom", at=fault(batch_size=4), force=spent)
    assert (decision.resumption, decision.settings.input_reduction) == ("new_process", 2)
    alone = judged("host_oom", at=fault(batch_size=4), force=spent, can=ALONE)
    assert (alone.resumption, alone.basis) == ("roll_back", "no_new_process")
    assert judged("host_oom", at=fault(phase="data")).settings.input_reduction == 2


def test_device_fault() -> None:
    """A new process at once; an end after repeats at one place."""
    assert told(run("device_fault", [5] * 5)) == ["new_process"] * 3 + ["no_progress"]
    assert judged("device_fault", can=ALONE).basis == "no_new_process"
    assert judged("device_fault").delay == 0


def test_bad_data_is_quarantined_within_its_budget() -> None:
    """Records are quarantined in place, in the same attempt, until too many are."""
    decision = judged("bad_data", at=fault(100, batch_size=32))
    assert (decision.resumption, decision.opens_attempt) == ("in_place", False)
    many = judged("bad_data", at=fault(100, batch_size=32), log=AttemptLog(quarantined=500))
    assert (many.verdict, many.basis) == ("stop", "quarantine_spent")
    elsewhere = judged("bad_data", can=ALONE)
    assert elsewhere.text.split(": ")[1].startswith("back to the last checkpoint, because")
    assert judged("bad_data", policy=Policy.strict()).basis == "changes_result"


def test_input_is_rebuilt_once() -> None:
    """The iterator is made anew once; a second end at the same place is the end, with the arithmetic."""
    decisions = run("input_exhausted", [5, 5], message="in this case, 28100 batches")
    assert told(decisions) == ["in_place", "no_progress"]
    assert "5 steps were done, 28100 batches were asked for" in decisions[-1].text


def test_divergence() -> None:
    """Skip the batch, then lower the learning rate, then stop."""
    decisions = run("divergence", [5] * 6)
    assert told(decisions) == ["roll_back"] * 5 + ["no_progress"]
    assert decisions[0].settings.skipped_batches == (6,)
    assert decisions[4].settings.learning_rate_scale == 0.125


def test_input_output_waits_in_place() -> None:
    """The same step again, after waits that grow."""
    decisions = run("transient_io", [5] * 9)
    assert told(decisions) == ["in_place"] * 8 + ["no_progress"]
    assert [decision.delay for decision in decisions[:3]] == [1.0, 2.0, 4.0]
    assert not any(decision.opens_attempt for decision in decisions)


def test_full_disk_keeps_training() -> None:
    """Room is made in place, and waited for."""
    decisions = run("disk_full", [5] * 8, phase="checkpoint")
    assert told(decisions) == ["in_place"] * 7 + ["no_progress"]
    assert (decisions[0].delay, decisions[1].delay > 0) == (0, True)


def test_checkpoints() -> None:
    """A save that failed is passed over; a damaged checkpoint gives way to an older one; another model's stops."""
    assert judged("checkpoint_error", at=fault(phase="checkpoint")).resumption == "in_place"
    older = judged("checkpoint_error", at=fault(phase="restore"), can=ALONE)
    assert [type(action).__name__ for action in older.actions] == ["OlderCheckpoint"]
    other = judged("checkpoint_error", at=fault(phase="restore", message="shape mismatch"))
    assert (other.verdict, other.basis) == ("stop", "ladder_spent")


def test_lost_workers_and_deaths() -> None:
    """New processes; three deaths without progress stop."""
    assert judged("worker_lost").delay > 0
    dead: dict[str, Any] = {"signal": 9, "phase": "process", "can": Capabilities(new_process=True)}
    assert told(run("process_death", [5, 5, 5], **dead)) == ["new_process", "new_process", "no_progress"]
    assert told(run("process_death", [5, 6, 7, 8], **dead)) == ["new_process"] * 4


def test_hang_and_limits() -> None:
    """A hang needs a new process; a resource limit too, or a roll-back."""
    assert judged("hang", at=fault(silent_seconds=60.0), can=LOOP).resumption == "new_process"
    assert told(run("resource_limit", [5, 5])) == ["new_process", "no_progress"]
    assert judged("resource_limit", can=ALONE).resumption == "roll_back"


def test_interruption_leaves() -> None:
    """Whatever the policy, a job that is asked to end leaves to be resumed."""
    for policy in (Policy(), Policy.control(), Policy(on=[])):
        decision = judged("interruption", policy=policy)
        assert (decision.verdict, decision.basis, decision.opens_attempt) == ("leave", "interrupted", False)


@pytest.mark.parametrize("name", ["programming_error", "environment"])
def test_stop_classes(name: str) -> None:
    """What trying again cannot help is never tried again."""
    decision = judged(name)
    assert (decision.verdict, decision.basis) == ("stop", "stop_class")


def test_tracking_never_ends_training() -> None:
    """However often MLflow fails, in one place or many, training goes on."""
    decisions = run("tracking", [5] * 50, policy=Policy(on=[], max_lost_time=0.0))
    assert {(decision.resumption, decision.basis, decision.opens_attempt) for decision in decisions} == {
        ("in_place", "harmless", False)
    }


def test_unknown_has_one_retry_a_place() -> None:
    """One retry from the last checkpoint, another after progress, none without."""
    decisions = run("unknown", [5, 9, 9, 10])
    assert told(decisions) == ["roll_back", "roll_back", "no_progress"]
    assert [decision.basis for decision in decisions] == ["first", "progress", "no_progress"]
    assert judged("unknown", can=Capabilities(checkpoint=False)).basis == "no_checkpoint"


# -- what the policy allows -------------------------------------------------------------------------------------------


def test_control_never_recovers() -> None:
    """The control arm records the fault and ends as plain Keras would."""
    assert {judged(name, policy=Policy.control()).verdict for name in KNOWN} == {"stop", "leave"}


def test_only_the_classes_named() -> None:
    """`on` leaves every other class alone."""
    policy = Policy(on=["device_oom"])
    assert judged("device_oom", policy=policy).verdict == "continue"
    assert judged("transient_io", policy=policy).basis == "class_excluded"


def test_strict_changes_no_result() -> None:
    """Nothing that changes the result is done; where only that would help, it stops."""
    strict = Policy.strict()
    assert judged("divergence", policy=strict).basis == "changes_result"
    assert judged("device_oom", policy=strict).settings.accumulation == 2
    inexact = replace(STEP, exact_split=False)
    assert judged("device_oom", policy=strict, can=inexact).settings == Settings(memory_growth=True)
    assert (
        judged("device_oom", policy=strict, can=inexact, at=fault(phase="validation")).settings.validation_pieces == 2
    )


def test_a_budget_takes_the_place_of_the_ladders_length() -> None:
    """A class's own budget shortens its ladder, or makes its last rung last."""
    assert told(run("process_death", [5] * 3, policy=Policy(budgets={"process_death": 1}))) == [
        "new_process",
        "budget_spent",
    ]
    longer = told(run("process_death", [5] * 6, policy=Policy(budgets={"process_death": 4})))
    assert longer == ["new_process"] * 4 + ["budget_spent"]


def test_lost_time_is_bounded() -> None:
    """Time lost so far and the wait to come count together."""
    policy = Policy(max_lost_time=10.0)
    assert judged("transient_io", policy=policy, log=AttemptLog(lost_seconds=8.0)).verdict == "continue"
    assert judged("transient_io", policy=policy, log=AttemptLog(lost_seconds=9.5)).basis == "lost_time"


def test_ceiling_counts_failed_attempts() -> None:
    """So many attempts may fail; what stays within its attempt is not counted."""
    decisions = run("unknown", list(range(5, 30)), policy=Policy(max_attempts=3))
    assert told(decisions) == ["roll_back", "roll_back", "ceiling"]
    assert judged("transient_io", policy=Policy(max_attempts=1)).resumption == "in_place"
    assert judged("unknown", policy=Policy(max_attempts=1)).basis == "ceiling"


def test_quarantine_budget() -> None:
    """A few bad records are always few; many are judged by their share and their number."""
    policy = Policy(max_quarantined=100, max_quarantined_share=0.05)
    assert policy.allows_quarantine(10, 10)
    assert not policy.allows_quarantine(11, 100)
    assert policy.allows_quarantine(50, 1000)
    assert not policy.allows_quarantine(101, 100_000)


def test_presets_can_be_changed() -> None:
    """Each preset takes the arguments of a policy."""
    assert Policy.strict(max_attempts=2) == Policy(allow_semantic_changes=False, max_attempts=2)
    assert Policy.patient(max_attempts=7).max_attempts == 7
    assert Policy.patient().backoff.max_seconds > Backoff().max_seconds
    assert not Policy.control(max_attempts=3).recover


@pytest.mark.parametrize(
    "wrong", [{"max_attempts": 0}, {"on": "device_oom"}, {"budgets": {"unknown": -1}}, {"max_lost_time": -1.0}]
)
def test_impossible_policies_are_refused(wrong: dict[str, Any]) -> None:
    """A wrong value is named at once."""
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Policy(**wrong)


def test_a_class_of_ones_own() -> None:
    """One registration is enough; it is asked first, about every link."""
    own = Recovery(
        failure_class="licence_server",
        domain="infrastructure",
        matches=lambda fault: "licence" in fault.message,
        ladder=(Rung(KNOWN["transient_io"].ladder[0].actions, times=2),),
    )
    policy = Policy().with_recovery(own)
    at = fault(message="no licence: [Errno 111] Connection refused")
    recovery = classify(at, (*policy.recoveries, *BUILT_IN))
    assert recovery.failure_class == "licence_server"
    assert decide(at, recovery, AttemptLog(), Settings(), policy, STEP).resumption == "in_place"


# -- what a decision says ---------------------------------------------------------------------------------------------


def test_one_readable_line() -> None:
    """What, where, what is done, why."""
    assert judged("device_oom", at=fault(99, exception="ResourceExhaustedError")).text == (
        "device_oom (ResourceExhaustedError) in step 100 (epoch 1): each batch in 2 micro-batches, the same step "
        "again, because it is the first fault of its class"
    )
    waiting = judged("transient_io", at=fault(99, phase="callback"), can=ALONE).text
    assert waiting == (
        "transient_io (E) after step 99 (callback): wait first, back to the last checkpoint (1.0 s), "
        "because it is the first fault of its class"
    )
    assert "new process from the last checkpoint" in judged("unknown", at=fault(signal=9), can=LOOP).text
    assert in_words(Fault(exception="E"), "unknown", "stop", "no_progress").startswith("unknown (E): stop")
    assert in_words(Fault(exception="E", phase="start"), "unknown", "stop", "no_progress").startswith(
        "unknown (E) in start"
    )


def test_a_basis_is_one_of_the_fixed_words() -> None:
    """No decision can be made up."""
    with pytest.raises(ValueError, match="mood"):
        Decision(verdict="stop", basis="mood", failure_class="unknown", settings=Settings())


# -- for every sequence of faults -------------------------------------------------------------------------------------

faults = st.builds(
    fault,
    st.integers(0, 20),
    phase=st.sampled_from(["start", "restore", "data", "step", "validation", "checkpoint", "callback", "process"]),
    jit=st.booleans(),
    batch_size=st.none() | st.integers(1, 64),
    signal=st.none() | st.just(9),
)
capabilities = st.builds(
    Capabilities, in_place=st.booleans(), new_process=st.booleans(), checkpoint=st.booleans(), exact_split=st.booleans()
)
policies = st.builds(
    Policy,
    recover=st.just(True),
    max_attempts=st.integers(1, 6),
    budgets=st.dictionaries(st.sampled_from(sorted(KNOWN)), st.integers(0, 30), max_size=4),
    max_lost_time=st.none() | st.floats(0, 100),
    allow_semantic_changes=st.booleans(),
)
sequences = st.lists(st.tuples(st.sampled_from(sorted(KNOWN)), faults, capabilities), max_size=60)


@settings(deadline=None)
@given(sequences, policies)
def test_the_ceiling_holds(sequence: list[tuple[str, Fault, Capabilities]], policy: Policy) -> None:
    """Whatever goes wrong, in whatever order: never more failed attempts than the ceiling, and always a basis."""
    log = AttemptLog()
    for name, at, can in sequence:
        decision = decide(at, KNOWN[name], log, log.settings, policy, can)
        assert decision.basis in BASES
        assert decision.text
        assert (decision.resumption is None) == (decision.verdict != "continue")
        if decision.resumption == "in_place":
            assert can.in_place and not at.process_gone
        if not policy.allow_semantic_changes:
            assert not any(action.changes_result for action in decision.actions)
        note(log, at, decision)
        assert len(log.failed) <= policy.max_attempts
        if decision.verdict != "continue":
            break


@settings(deadline=None)
@given(sequences, policies, st.sampled_from(sorted(KNOWN)), faults, capabilities)
def test_the_same_values_give_the_same_decision(
    sequence: list[tuple[str, Fault, Capabilities]], policy: Policy, name: str, at: Fault, can: Capabilities
) -> None:
    """Two readers of one journal, such as a supervisor and a new worker, decide alike."""

    def follow() -> Decision:
        log = AttemptLog()
        for earlier, where, how in sequence:
            note(log, where, decide(where, KNOWN[earlier], log, log.settings, policy, how))
        return decide(at, KNOWN[name], log, log.settings, policy, can)

    assert follow() == follow()


@settings(deadline=None)
@given(st.sampled_from(["unknown", "process_death", "device_fault", "transient_io"]), st.integers(1, 12))
def test_progress_resets_the_budget_but_not_the_ceiling(name: str, ceiling: int) -> None:
    """Each fault further on finds its class's budget whole; the ceiling ends it all the same."""
    policy = Policy(max_attempts=ceiling)
    decisions = run(name, list(range(1, 40)), policy=policy)
    if name == "transient_io":
        assert all(decision.verdict == "continue" for decision in decisions)
    else:
        assert len(decisions) == ceiling
        assert decisions[-1].basis == "ceiling"
    assert all(decision.rung == 0 for decision in decisions if decision.verdict == "continue")
