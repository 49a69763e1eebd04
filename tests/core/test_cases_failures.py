"""Errors as users saw them, each with the class that is right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.core.attempt import AttemptLog, Settings
from mlflow_resilience.core.failure import classify
from mlflow_resilience.core.fault import Fault, Position
from mlflow_resilience.core.policy import Capabilities, Policy, decide
from mlflow_resilience.explain import explain
from mlflow_resilience.recoveries import BUILT_IN

DATA = Path(__file__).parents[1] / "data"
FAILURES: list[dict[str, Any]] = json.loads((DATA / "failures.json").read_text())
MORE: list[dict[str, Any]] = json.loads((DATA / "more_failures.json").read_text())
STOPS = {"programming_error", "environment"}

every_case = pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in FAILURES + MORE])


@every_case
def test_judged_from_exception_and_message(case: dict[str, Any]) -> None:
    """The class is found from what a live exception would have told."""
    fault = Fault(exception=case["exception"], message=case["message"])
    assert classify(fault, BUILT_IN).failure_class == case["failure_class"]


@every_case
def test_explained_from_its_text(case: dict[str, Any]) -> None:
    """The same text, pasted, is explained as the same class."""
    told = ": ".join(part for part in (case["exception"], case["message"]) if part)
    assert explain(told).failure_class == case["failure_class"]


@every_case
def test_stop_classes_stop_and_others_do_not(case: dict[str, Any]) -> None:
    """What trying again cannot help is never retried, and everything else gets its ladder."""
    fault = Fault(exception=case["exception"], message=case["message"], position=Position(global_step=5))
    able = Capabilities(in_place=True, new_process=True)
    decision = decide(fault, classify(fault, BUILT_IN), AttemptLog(), Settings(), Policy(), able)
    name = case["failure_class"]
    if name == "checkpoint_error":  # one that belongs to another model stops, others take an older one
        assert decision.verdict in ("stop", "continue")
    else:
        assert decision.verdict == ("stop" if name in STOPS else "leave" if name == "interruption" else "continue")


def test_no_matcher_knows_a_sentence() -> None:
    """No matcher's literal words are so many that they are one message rather than a kind of message."""
    folder = Path(__file__).parents[2] / "mlflow_resilience" / "recoveries"
    messages = [f"{case['exception']}: {case['message']}".lower() for case in FAILURES]
    for path in folder.glob("*.py"):
        for literal in re.findall(r'r"([^"\n]+)"', path.read_text()):
            for phrase in re.findall(r"[a-z'-]+(?: [a-z'-]+){3,}", literal):
                assert sum(phrase in message for message in messages) != 1, (path.name, phrase)
