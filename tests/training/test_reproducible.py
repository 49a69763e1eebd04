"""What would not repeat itself is found before training; what would is left in peace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training import children

REASONS = {
    "unseeded shuffle": "the Shuffle stage has no seed",
    "unseeded random": "the Random stage has no seed",
    "parallel noise": "stateful random ops (RandomUniform) in parallel",
    "parallel layer": "in parallel",
    "unordered map": "the ParallelMap stage says deterministic=False",
    "unordered interleave": "the ParallelInterleave stage says deterministic=False",
    "unordered within": "the FlatMap stage says deterministic=False",
    "unordered options": "options say deterministic=False",
    "two workers draw": "Drawing draws random numbers (normal, random) in 2 workers",
    "unseeded arrays": "the arrays are shuffled without a seed",
}
SILENT = (
    "seeded shuffle",
    "serial noise",
    "stateless noise",
    "ordered interleave",
    "one worker draws",
    "two workers, own streams",
    "two workers, nothing drawn",
    "seeded arrays",
    "shuffle after the seed",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("found")
    assert children.run("tests.training.reproducible_facts:found", folder) == 0
    return children.facts(folder)


@pytest.mark.parametrize("name", REASONS)
def test_it_is_found_once_with_its_reason(found: Any, name: str) -> None:
    assert len(found[name]) == 1, found[name]
    assert REASONS[name] in found[name][0]


@pytest.mark.parametrize("name", SILENT)
def test_what_repeats_itself_is_no_finding(found: Any, name: str) -> None:
    assert found[name] == []


def test_what_the_buffers_of_a_pipeline_may_hold(tmp_path: Any) -> None:
    """It bounds the state of an iterator, before it is asked for."""
    assert children.run("tests.training.reproducible_facts:held", tmp_path) == 0
    assert children.facts(tmp_path) == {
        "shuffle, batch, prefetch": [10, 3],
        "shuffle of batches": [0, 5],
        "nothing held": [0, 0],
        "cache": None,
        "shuffle within": None,
    }
