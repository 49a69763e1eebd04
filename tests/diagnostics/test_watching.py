"""Diagnostics beside real trainings: the training stays what it is, and what is told of it is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.diagnostics.verdict import SYMPTOMS
from tests.training import children

FAST = ["several", "jit"]
FULL = ["plain", *FAST, "jit_several", "jit_convolution", "jit_recurrent", "eager", "scaled", "recurrent", "decayed"]


@pytest.mark.full
def test_a_training_is_the_same_with_diagnostics_bit_for_bit(tmp_path: Path) -> None:
    """Weights, optimiser and history; with several steps an execution, and compiled by XLA."""
    _same_bits(tmp_path, FAST, intervals=[3], epochs=1)


@pytest.mark.full
@pytest.mark.parametrize("way", FULL)
def test_it_is_the_same_in_every_way_to_train(way: str, tmp_path: Path) -> None:
    """Other layers and optimisers, eager steps, a scaled loss, a schedule."""
    _same_bits(tmp_path, [way], intervals=[7, 1], epochs=2)


def _same_bits(folder: Path, ways: list[str], **how: Any) -> None:
    assert children.run("tests.diagnostics.watched:bits", folder, ways=ways, **how) == 0
    for way, told in children.facts(folder).items():
        assert told["same"], way
        assert min(told["readings"]) >= 3, way


def test_what_is_told_is_what_a_computation_by_hand_gives(tmp_path: Path) -> None:
    """The global norm, the update ratios, the spread of weights and the loss; and the optimiser is left as it was."""
    assert children.run("tests.diagnostics.watched:norms", tmp_path) == 0
    facts = children.facts(tmp_path)
    assert facts["told"] == pytest.approx(facts["by_hand"], rel=1e-4)
    assert facts["ratios"] == pytest.approx(facts["changed"], rel=1e-3)
    assert facts["std"] == pytest.approx(facts["std_by_hand"], rel=1e-3)
    assert facts["loss"][0] == pytest.approx(facts["loss"][1], rel=1e-5)
    assert len(facts["layers"]) == 2
    assert facts["left"] == []


def test_a_resumed_training_ends_as_one_in_one_go_and_so_does_its_record(tmp_path: Path) -> None:
    """In mid-epoch, under our fit; the journal has each reading's points, and at the end table, figure and tags."""
    assert children.run("tests.diagnostics.watched:resumed", tmp_path) == 0
    facts = children.facts(tmp_path)
    assert facts["same"]
    assert facts["same_record"]
    assert facts["began"][1] > 15
    assert facts["steps"] == list(range(2, 31, 2))
    assert {"diagnostics/learning_rate", "diagnostics/dead_units"} < set(facts["keys"])
    assert facts["files"] == ["diagnostics.json", "diagnostics.png"]
    assert facts["png"] == "89504e47"
    assert facts["table"]["readings"]["step"] == facts["steps"]
    assert "resilience.diagnostics" in facts["tags"]


@pytest.mark.full
def test_a_verdict_is_an_event_of_the_job_and_a_repeated_step_one_reading(tmp_path: Path) -> None:
    """After a fault the record goes on where training does."""
    assert children.run("tests.diagnostics.watched:recovered", tmp_path) == 0
    facts = children.facts(tmp_path)
    assert facts["failure"] == ""
    assert facts["attempts"] == 2
    assert facts["steps"] == list(range(1, 31))
    assert [each[2] for each in facts["events"]] == ["vanishing"]
    assert "fewer layers" in facts["events"][0][1]


@pytest.mark.full
def test_under_plain_fit_the_open_run_has_it_all(tmp_path: Path) -> None:
    """Metrics, tags, the table and the figure, logged when training has ended."""
    assert children.run("tests.diagnostics.watched:logged", tmp_path) == 0
    facts = children.facts(tmp_path)
    assert facts["steps"] == [5, 10, 15, 20, 25, 30]
    assert "diagnostics/learning_rate" in facts["metrics"]
    assert "resilience.diagnostics" in facts["tags"]
    assert len(facts["files"]) == 2


@pytest.mark.full
def test_what_fails_in_the_diagnostics_does_not_reach_the_training(tmp_path: Path) -> None:
    """A warning says so, once."""
    assert children.run("tests.diagnostics.watched:broken", tmp_path) == 0
    facts = children.facts(tmp_path)
    assert facts["same"]
    assert len(facts["said"]) == 1
    assert "training goes on without" in facts["said"][0]


@pytest.mark.full
def test_a_trial_of_rates_measures_and_leaves_all_as_it_was(tmp_path: Path) -> None:
    """A rate that is too low is found out; a good one is not said to need a restart of ten times as much."""
    assert children.run("tests.diagnostics.watched:tried", tmp_path) == 0
    facts = children.facts(tmp_path)
    for told in facts.values():
        assert told["as_it_was"]
        assert set(told["losses"]) == {"as it is", "warm restart", "cyclic rate"}
    for name in ("low", "schedule"):
        assert facts[name]["losses"]["warm restart"] < 0.98 * facts[name]["losses"]["as it is"]
        assert "lowers it by" in facts[name]["text"]
    assert facts["good"]["losses"]["as it is"] < facts["good"]["before"]
    assert "neither" in facts["good"]["text"]


@pytest.mark.full
def test_the_snippets_of_the_guide_run_and_it_names_every_symptom(tmp_path: Path) -> None:
    """As they are written, on a healthy training."""
    assert children.run("tests.diagnostics.watched:guide", tmp_path) == 0
    facts = children.facts(tmp_path)
    assert facts["snippets"] == 3
    assert facts["verdicts"] == 0
    assert sorted(facts["symptoms"]) == sorted(SYMPTOMS)
