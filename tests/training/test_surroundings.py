"""What a resume is compared with: the machine, the versions, the number of replicas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mlflow_resilience.training import environment, preflight


def test_a_number_of_replicas_that_was_not_written_down_was_one() -> None:
    """Checkpoints from before there was a choice say nothing of it."""
    known = {"python": "3.11.2"}
    assert environment.differences(known, known | {"replicas": 1}) == []
    (line,) = environment.differences(known, known | {"replicas": 2})
    assert line == "replicas, each with its part of every batch: 1 -> 2"
    (line,) = environment.differences(known | {"replicas": 4}, known | {"replicas": 2})
    assert line.endswith("4 -> 2")


def test_a_state_of_another_place_is_said_and_one_of_this_place_is_not() -> None:
    """At the state's own step, so that a roll-back to it does not undo what is said of it."""
    told: list[Any] = []
    journal: Any = SimpleNamespace(append=lambda kind, **fields: told.append((kind, fields["step"], fields["text"])))
    plan: Any = SimpleNamespace(environment={"replicas": 2})
    position = {"global_step": 80}
    preflight.say_of_place(plan, {"position": position, "environment": {"replicas": 2}}, journal)
    assert told == []
    preflight.say_of_place(plan, {"position": position, "environment": {"replicas": 4}}, journal)
    ((kind, step, text),) = told
    assert (kind, step) == ("semantic_change", 80) and "may differ from step 80 on" in text and "4 -> 2" in text
