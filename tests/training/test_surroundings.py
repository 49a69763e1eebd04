"""What a resume is compared with: the machine, the versions, the number of replicas."""

from __future__ import annotations

from mlflow_resilience.training import environment


def test_a_number_of_replicas_that_was_not_written_down_was_one() -> None:
    """Checkpoints from before there was a choice say nothing of it."""
    known = {"python": "3.11.2"}
    assert environment.differences(known, known | {"replicas": 1}) == []
    (line,) = environment.differences(known, known | {"replicas": 2})
    assert line == "replicas, each with its part of every batch: 1 -> 2"
    (line,) = environment.differences(known | {"replicas": 4}, known | {"replicas": 2})
    assert line.endswith("4 -> 2")
