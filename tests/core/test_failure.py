"""Classes, ladders, and the order in which a fault is held against them."""

from __future__ import annotations

from mlflow_resilience.core.action import Action, GrowMemory, NewProcess, RetryStep, RollBack, SplitBatch
from mlflow_resilience.core.failure import UNKNOWN, Recovery, Rung, anywhere, asked_first, classify
from mlflow_resilience.core.fault import Cause, Fault

INNER = Recovery(failure_class="inner", domain="workload", matches=lambda fault: fault.exception == "Inner")
OUTER = Recovery(failure_class="outer", domain="workload", matches=lambda fault: fault.exception == "Outer")
FAULT = Fault(exception="Outer", chain=(Cause("Inner", ""),))


def test_the_root_cause_decides_before_precedence() -> None:
    """The innermost link is held against every class before the next one is."""
    assert classify(FAULT, (OUTER, INNER)) is INNER


def test_precedence_decides_within_a_link() -> None:
    """Where two would match the same link, the earlier one has it."""
    first = Recovery(failure_class="first", domain="workload", matches=lambda fault: True)
    assert classify(FAULT, (first, INNER)) is first


def test_certain_facts_come_first() -> None:
    """What is certain is asked about the whole fault before any message."""
    certain = Recovery(failure_class="certain", domain="workload", certain=lambda fault: fault.exception == "Outer")
    assert classify(FAULT, (INNER, certain)) is certain


def test_nothing_known() -> None:
    """A fault that nothing matches is unknown, by the list's own entry or without one."""
    own = Recovery(failure_class="unknown", domain="unknown", hint="own")
    assert classify(FAULT, (own,)) is own
    assert classify(FAULT, ()) is UNKNOWN


def test_ones_own_is_asked_about_every_link_first() -> None:
    """A recovery of the user's own wins, root cause or not."""
    assert classify(FAULT, (asked_first(OUTER), INNER)).failure_class == "outer"
    assert classify(Fault(exception="Other"), (asked_first(OUTER), INNER)) is UNKNOWN
    assert anywhere(INNER.matches)(FAULT)


def test_a_rung_goes_as_far_as_its_harshest_action() -> None:
    """Where training goes on follows from the actions."""
    assert Rung((SplitBatch(), RetryStep())).resumption == "in_place"
    assert Rung((SplitBatch(), RollBack())).resumption == "roll_back"
    assert Rung((RollBack(), NewProcess(), GrowMemory())).resumption == "new_process"
    assert Rung(()).resumption == "in_place"
    assert Rung((Action(),)).when(FAULT)


def test_defaults_say_nothing() -> None:
    """A bare class matches nothing, condemns nothing, and adds no words."""
    bare = Recovery(failure_class="bare", domain="unknown")
    assert not bare.matches(FAULT)
    assert not bare.condemns(FAULT)
    assert bare.detail(FAULT) == ""
