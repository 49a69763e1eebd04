"""A recipe's arrays come in another order in each epoch, and resume as exactly as any other data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training import children
from tests.training.killing import POINTS, WAYS, Kill

CELLS = [(point, way) for point in POINTS for way in WAYS]


def test_each_epoch_has_an_order_of_its_own_that_the_seed_repeats(tmp_path: Path) -> None:
    """Each record once an epoch, in batches of the size asked for."""
    assert children.run("tests.training.reshuffled:orders", tmp_path) == 0, children.output(tmp_path)
    first, again, other = children.facts(tmp_path)
    assert first == again != other
    assert [len(batch) for batch in first[0]] == [4, 4, 2]
    epochs = [[record for batch in epoch for record in batch] for epoch in first]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_a_recipe_has_it_wherever_its_arrays_can_be_chosen_from(tmp_path: Path) -> None:
    """With the job's seed; what is no array is left to Keras."""
    assert children.run("tests.training.reshuffled:asked_for", tmp_path) == 0, children.output(tmp_path)
    assert children.facts(tmp_path) == {"arrays": 7, "weighted": 7, "sparse": True, "pipeline": False}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("reshuffled")
    assert children.run("tests.training.fits:resilient", folder, pipeline="reshuffled") == 0, children.output(folder)
    return children.facts(folder)


@pytest.mark.full
@pytest.mark.parametrize(("point", "way"), CELLS)
def test_killed_at_any_moment_it_ends_as_undisturbed(tmp_path: Path, undisturbed: Any, point: str, way: str) -> None:
    """Weights, optimiser and history, bit for bit."""
    for _ in range(3):
        code = children.run("tests.training.fits:resilient", tmp_path, pipeline="reshuffled", kills=[Kill(point, way)])
        if code == 0:
            break
    assert children.facts(tmp_path) == undisturbed
    assert (tmp_path / "kill-0").exists()
