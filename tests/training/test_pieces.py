"""Out of memory: the same training in pieces, in this process or another, and back to whole batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training import children

KINDS = ["partial", "weighted", "own_step", "averaged", "scheduled", "clipped", "jit"]


def trained(folder: Path, target: str, **arguments: Any) -> Any:
    assert children.run(f"tests.training.pieces:{target}", folder, **arguments) == 0, children.output(folder)
    return children.facts(folder)


def are_close(facts: dict[str, Any]) -> None:
    for ours, theirs in zip(facts["ours"], facts["plain"], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def are_alike(facts: dict[str, Any]) -> None:
    """In four pieces a batch, the same weights as plain `fit` up to rounding, and as many optimiser steps."""
    for kind, found in facts.items():
        assert found["pieces"] == 4, kind
        assert found["distance"] < 1e-6, kind
        assert found["iterations"] == [20, 20], kind
        assert found["norms"] == 20, kind


@pytest.mark.full
def test_pieces_give_the_weights_of_whole_batches(tmp_path: Path) -> None:
    """All at once: a partial batch, weights, a step of one's own, a schedule, an average of the weights, clipping."""
    are_alike(trained(tmp_path, "alike", kinds=["everything"]))


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_give_the_weights_of_whole_batches_in_each_case(tmp_path: Path, kind: str) -> None:
    """Each alone, and under XLA."""
    are_alike(trained(tmp_path, "alike", kinds=[kind]))


@pytest.mark.full
def test_fewer_pieces_are_tried_once(tmp_path: Path) -> None:
    """After enough clean steps; the try fails, is taken back, and is not made again."""
    facts = trained(tmp_path, "grown")
    assert facts["pieces"] == [1, 2, 1, 2]
    assert facts["ends"] == ["FAILED", "FINISHED", "FAILED", "FINISHED"]
    assert facts["starts"] == [0, 3, 9, 12]
    assert any("whole again from step 10" in text for text in facts["changes"])
    are_close(facts)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    facts: dict[str, Any] = trained(tmp_path_factory.mktemp("held"), "held")
    return facts


def test_validation_that_does_not_fit_is_made_smaller_alone(held: dict[str, Any]) -> None:
    """The training keeps its batches, and its bits."""
    found = held["validation"]
    assert found["faults"] == ["host_oom"]
    assert (found["pieces"], found["validation"]) == ([1, 1], [1, 2])
    assert found["same"]
    assert ["rounding" in text for text in found["changes"]] == [True]


def test_the_size_that_was_found_is_offered_to_the_next_job(held: dict[str, Any]) -> None:
    """It is announced, said to change what it changes, and spares the fault; `strict` does not use it."""
    assert held["first"]["pieces"] == [1, 2]
    assert held["second"]["pieces"] == [2]
    assert held["second"]["faults"] == []
    assert "remembered_size" in held["second"]["events"]
    assert ["2 pieces" in text for text in held["second"]["changes"]] == [True]
    assert held["strict"]["pieces"] == [1, 2]
    assert "remembered_size" not in held["strict"]["events"]


def test_a_job_that_goes_on_has_the_size_of_the_state_that_it_goes_on_from(held: dict[str, Any]) -> None:
    """The micro-batch is part of the training state."""
    assert held["resumed"]["pieces"] == [2]
    assert held["resumed"]["faults"] == []


def test_what_fits_in_no_way_says_so(held: dict[str, Any]) -> None:
    """The end of the ladder names what was asked for, and has the allocator's own error as its cause."""
    found = held["no_fit"]
    assert found["error"].startswith("RecoveryExhausted")
    assert "does not fit" in found["error"] and "a tensor of shape" in found["error"]
    assert found["cause"] == "ResourceExhaustedError"
    assert max(found["pieces"]) == 8


@pytest.mark.full
def test_out_of_memory_under_xla_condemns_the_process(tmp_path: Path) -> None:
    """Nothing that lives in it is saved; the next process goes on from the last checkpoint, in pieces."""
    first = trained(tmp_path, "condemned")
    assert first["new_process"] and first["settings"]["accumulation"] == 2
    assert max(first["saved"]) <= 8
    assert [step for step in first["later"] if step > 8] == []
    facts = trained(tmp_path, "gone_on")
    assert facts["pieces"] == [1, 2]
    are_close(facts)


def test_memory_that_grows_from_retry_to_retry_is_left_behind(tmp_path: Path) -> None:
    """Each retry's memory is measured; where it grows clearly, a new process is asked for."""
    facts = trained(tmp_path, "leaking")
    assert facts["new_process"]
    first, second = facts["sizes"][:2]
    assert first["before_mb"] > 200
    assert second["after_mb"] > first["after_mb"] + 100
