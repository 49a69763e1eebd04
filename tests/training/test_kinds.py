"""State beyond weights: optimisers, precision, variables that Keras lists nowhere, callbacks that keep weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training import children

FAST = ("subclassed", "two_optimizers", "mixed_float16")
FULL = ("momentum", "moving_average", "rate_schedule", "bfloat16", "unbuilt", "augmentation_layer", "early_stopping")


@pytest.mark.parametrize("kind", [*FAST, *(pytest.param(kind, marks=pytest.mark.full) for kind in FULL)])
def test_interrupted_in_mid_epoch_it_ends_as_undisturbed(tmp_path: Path, kind: str) -> None:
    """A new model in a new job's process takes all of the state over; a Ctrl-C in between is what interrupts."""
    assert children.run("tests.training.kinds:both", tmp_path, kind=kind) == 0
    facts = children.facts(tmp_path)
    first, second = facts["starts"]
    assert (first, second) == (0, second)
    assert 0 < second <= 14, "it went on from a checkpoint"
    assert facts["ours"] == facts["plain"]
