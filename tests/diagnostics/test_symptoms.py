"""Each symptom is found in a small training that was made to show it, and none in healthy ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training import children

#: Name of the training, and the symptom that it shows.
SICK = {
    "vanishing": "vanishing",
    "exploding": "exploding",
    "diverging": "exploding",
    "dead_relu": "dead_units",
    "overfitting": "overfitting",
    "underfitting": "underfitting",
    "oscillation": "oscillation",
    "plateau": "plateau",
    "too_low": "rate_low",
    "too_high": "rate_high",
}
HEALTHY = ["dense", "convolution", "regression", "recurrent"]


def _found(folder: Path, names: list[str], seeds: list[int]) -> dict[str, dict[str, list[str]]]:
    assert children.run("tests.diagnostics.watched:symptoms", folder, names=names, seeds=seeds) == 0
    told: dict[str, dict[str, list[str]]] = children.facts(folder)
    return told


def test_some_symptoms_and_a_healthy_training_of_two_seeds(tmp_path: Path) -> None:
    """The sample of the fast tier: what is cheap to show."""
    found = _found(tmp_path, ["vanishing", "dead_relu"], [0])
    assert found["vanishing"]["0"][0].startswith("vanishing")
    assert found["dead_relu"]["0"][0].startswith("dead_units")
    assert _found(tmp_path / "healthy", ["regression"], [0, 1]) == {"regression": {"0": [], "1": []}}


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(SICK))
def test_the_symptom_is_found_with_every_seed(name: str, tmp_path: Path) -> None:
    """Five seeds."""
    found = _found(tmp_path, [name], list(range(5)))[name]
    assert all(any(text.startswith(SICK[name]) for text in texts) for texts in found.values()), found


@pytest.mark.full
@pytest.mark.parametrize(
    "seeds", [range(0, 5), range(5, 10), range(10, 15), range(15, 20)], ids=lambda each: str(each[0])
)
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_gives_no_verdict(name: str, seeds: range, tmp_path: Path) -> None:
    """Twenty seeds of each."""
    found = _found(tmp_path, [name], list(seeds))[name]
    assert found == {str(seed): [] for seed in seeds}
