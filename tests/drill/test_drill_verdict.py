"""The verdict on a cell, from values alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from mlflow_resilience.drill.going_back import Loss, losses
from mlflow_resilience.drill.verdict import (
    BAD,
    CHANGED,
    HARD_FAIL,
    IDENTICAL,
    LOST_WORK,
    SILENT_DIVERGENCE,
    STOPPED_RIGHTLY,
    Expected,
    judge,
)
from tests.drill.examples import CURVES, RECOVERED, UNDISTURBED

KILL = Expected(("kill",), 1, 20)
MOVED = {**CURVES, "val_loss": [(10, 1.1), (20, 0.9), (30, 0.95)]}


def word(expected: Expected = KILL, **changes: Any) -> str:
    return judge(UNDISTURBED, replace(RECOVERED, **changes), expected).word


def test_the_same_bits_and_metrics_are_identical() -> None:
    assert word() == IDENTICAL


def test_other_bits_without_a_word_are_a_silent_divergence() -> None:
    found = judge(UNDISTURBED, replace(RECOVERED, digest="bb", curves=MOVED), KILL, weights=0.01)
    assert found.word == SILENT_DIVERGENCE and found.bad
    assert found.metrics == {"val_loss": pytest.approx(0.1)}
    assert "val_loss by +0.1" in found.text and "weights by 0.01 of their norm" in found.text


def test_other_metrics_of_an_epoch_are_one_too_though_the_model_is_the_same() -> None:
    passing = {**CURVES, "loss": [(10, 1.0), (20, 0.81), (30, 0.7)]}
    found = judge(UNDISTURBED, replace(RECOVERED, curves=passing), KILL)
    assert found.word == SILENT_DIVERGENCE
    assert "the model is the same" in found.text


def test_other_bits_that_are_declared_are_a_change_by_so_much() -> None:
    struck = replace(RECOVERED, digest="bb", curves=MOVED, changes=("batch 15 left out",))
    found = judge(UNDISTURBED, struck, KILL)
    assert (found.word, found.bad) == (CHANGED, False)
    assert "batch 15 left out" in found.text and found.metrics


def test_a_declared_change_that_changed_nothing_is_identical_and_told() -> None:
    found = judge(UNDISTURBED, replace(RECOVERED, changes=("rate halved",)), KILL)
    assert found.word == IDENTICAL and "rate halved" in found.text


def test_not_a_number_is_equal_to_itself_and_to_nothing_else() -> None:
    lost = {**CURVES, "loss": [(10, math.nan), (20, 0.8), (30, 0.7)]}
    control = replace(UNDISTURBED, curves=lost)
    assert judge(control, replace(RECOVERED, curves=lost), KILL).word == IDENTICAL
    assert judge(control, RECOVERED, KILL).word == SILENT_DIVERGENCE


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"codes": (1,), "stops": ("no_progress",), "outcomes": ("failed",)}, "code 1 (no_progress)"),
        ({"codes": (75, 0)}, "code 75, which nothing asked for"),
        ({"codes": (-9, 0)}, "code -9, which nothing asked for"),
        ({"codes": (), "late": True, "seconds": 300.0}, "no end in 300 s"),
        ({"codes": ()}, "code -1"),
        ({"outcomes": ("failed",)}, "said to be failed"),
        ({"struck": ()}, "0 of 1 fault struck"),
        ({"left": ("python -m sender",)}, "processes are left: python -m sender"),
        ({"running": ("attempt 2",)}, "left RUNNING: attempt 2"),
        ({"digest": ""}, "no finished model"),
        ({"curves": {"loss": CURVES["loss"]}}, "val_loss is missing at step 10, 20, 30"),
        ({"outcomes": ("running",)}, "its journal has no end"),
    ],
)
def test_what_did_not_end_as_it_should_is_a_hard_fail(changes: dict[str, Any], told: str) -> None:
    found = judge(UNDISTURBED, replace(RECOVERED, **changes), KILL)
    assert found.word == HARD_FAIL and found.word in BAD
    assert told in found.text


def test_preempted_and_gone_on_with_to_the_same_result_is_stopped_rightly() -> None:
    term = Expected(("term",), 1, 20)
    assert word(term, codes=(75, 0), outcomes=("preempted", "clean")) == STOPPED_RIGHTLY
    assert word(term, codes=(75, 0), digest="bb") == SILENT_DIVERGENCE


def test_a_supervisor_that_was_killed_is_started_again_by_whoever_did_it() -> None:
    assert word(Expected(("everything",), 1, 20), codes=(-9, 0), outcomes=("failed", "clean")) == IDENTICAL


def test_what_cannot_be_helped_is_stopped_rightly_only_for_that_reason() -> None:
    bug = Expected(("bug",), 1, 20, "stop_class")
    stopped = {"codes": (1,), "outcomes": ("failed",), "classes": ("programming_error",), "digest": ""}
    assert word(bug, **stopped, stops=("stop_class",)) == STOPPED_RIGHTLY
    assert word(bug, **stopped, stops=("ladder_spent",)) == HARD_FAIL
    assert word(bug, **stopped, stops=("stop_class",), running=("job",)) == HARD_FAIL
    assert word(bug, **stopped, stops=("stop_class",), struck=()) == HARD_FAIL
    twice = Expected(("raise", "raise"), 2, 20, "no_progress")
    assert word(twice, **stopped, stops=("no_progress",), struck=("raise", "raise")) == STOPPED_RIGHTLY
    assert word(bug) == IDENTICAL  # it struck where nothing depended on it


def test_work_that_a_checkpoint_had_or_the_cadence_should_have_is_lost_work() -> None:
    assert word(losses=(Loss(17, 15, [15, 10]),)) == IDENTICAL
    assert word(losses=(Loss(17, 10, [15, 10]),)) == LOST_WORK
    assert word(losses=(Loss(29, 0, []),)) == LOST_WORK
    assert word(losses=(Loss(19, 0, []),)) == IDENTICAL
    torn = Expected(("torn_checkpoint",), 1, 20)
    assert word(torn, losses=(Loss(17, 10, [15, 10]),)) == IDENTICAL
    assert word(torn, losses=(Loss(17, 5, [15, 10, 5]),)) == LOST_WORK


def test_what_was_lost_is_told_after_what_diverged_in_silence() -> None:
    assert word(digest="bb", losses=(Loss(17, 10, [15, 10]),)) == SILENT_DIVERGENCE
    assert word(digest="bb", changes=("said",), losses=(Loss(17, 10, [15, 10]),)) == LOST_WORK


def test_each_going_back_is_read_from_the_journals_over_all_jobs() -> None:
    first = [
        {"kind": "attempt", "step": 0},
        {"kind": "points", "points": [["batch/loss", 5, 1.0, 0]]},
        {"kind": "checkpoint", "step": 5},
        {"kind": "fault", "fault": {"position": {"global_step": 8}}},
        {"kind": "attempt", "step": 5},
        {"kind": "points", "points": [["batch/loss", 12, 1.0, 0]]},
        {"kind": "checkpoint", "step": 10},
    ]
    second = [{"kind": "attempt", "step": 10}, {"kind": "attempt", "step": 10}]
    assert losses([*first, *second]) == (Loss(8, 5, [5]), Loss(12, 10, [10, 5]))
