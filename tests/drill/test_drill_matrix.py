"""Which cells there are, and how each is struck."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from mlflow_resilience import fault_plan
from mlflow_resilience.drill.arranging import arranged
from mlflow_resilience.drill.matrix import (
    CONTROL,
    KINDS,
    PHASES,
    STOPS,
    Cell,
    Outline,
    cells,
    chosen,
    plans,
    read_only,
    sample,
    why_not,
)
from mlflow_resilience.drill.settings import Selection, Settings
from mlflow_resilience.errors import UsageError

OUTLINE = Outline(epoch_steps=45, steps=135)


def test_every_fault_of_the_plan_has_a_cell_and_every_phase_is_struck_by_the_blows() -> None:
    found = cells(OUTLINE)
    assert len(set(found)) == len(found)
    assert {cell.phase for cell in found} == set(PHASES)
    assert set(fault_plan.KINDS) < {cell.kind for cell in found}
    for phase in PHASES:
        assert {"kill", "segfault", "term", "hang", "stop", "group", "everything"} <= {
            cell.kind for cell in found if cell.phase == phase
        }


@pytest.mark.parametrize("cell", cells(OUTLINE), ids=lambda cell: cell.name)
def test_each_cell_is_struck_by_a_plan_that_the_job_takes_or_by_a_striker(cell: Cell) -> None:
    plan = arranged(cell, OUTLINE)
    faults = fault_plan.parse(plan.fault)
    assert len(faults) + (plan.striker is not None) == plan.strikes >= 1
    assert all(1 <= fault.step <= OUTLINE.steps for fault in faults)
    assert cell.kind in {*(fault.kind for fault in faults), *(plan.striker or ())}


def test_what_follows_another_fault_is_struck_after_it() -> None:
    assert arranged(Cell("hang", "resume"), OUTLINE).fault == "kill@67"
    assert arranged(Cell("hang", "recovery"), OUTLINE).fault == "raise@67"
    assert Cell("hang", "resume").kinds == ("kill", "hang")
    assert Cell("nan@3,term@5", "plan").kinds == ("nan", "term")


def test_the_control_is_struck_by_nothing() -> None:
    plan = arranged(Cell(*CONTROL.split("@")), OUTLINE)
    assert (plan.fault, plan.striker, plan.strikes) == ("none", None, 0)


@pytest.mark.parametrize(
    ("part", "phase"),
    [("validation", "validation"), ("models", "publishing"), ("checkpoints", "checkpoint_write")],
)
def test_a_phase_that_the_recipe_has_not_has_no_cells(part: str, phase: str) -> None:
    assert phase not in {cell.phase for cell in cells(replace(OUTLINE, **{part: False}))}  # type: ignore[arg-type]


def test_a_jump_of_the_loss_is_not_drilled_before_there_is_a_history_of_losses() -> None:
    assert why_not("spike", "mid_epoch", OUTLINE) is None
    assert "sixteen steps" in (why_not("spike", "mid_epoch", Outline(epoch_steps=8, steps=24)) or "")


@pytest.mark.parametrize(
    ("only", "count"), [("", None), ("kill", 8), ("kill@validation", 1), ("@validation", 12), ("nan,kill@resume", 3)]
)
def test_only_names_kinds_phases_or_cells(only: str, count: int | None) -> None:
    found = chosen(cells(OUTLINE), read_only(only))
    assert len(found) == (len(cells(OUTLINE)) if count is None else count)


@pytest.mark.parametrize(
    ("only", "told"),
    [
        ("frob", "no fault 'frob' to drill"),
        ("kill@noon", "no phase 'noon'"),
        ("nan@validation", "only=nan@validation: it is in a batch that is trained on"),
        ("kill,tracking@resume", "only=tracking@resume: outside of a step it is met as raise,"),
        ("@", ""),
    ],
)
def test_what_is_no_cell_is_refused_with_the_reason(only: str, told: str) -> None:
    if only == "@":
        assert chosen(cells(OUTLINE), read_only(only)) == cells(OUTLINE)
        return
    with pytest.raises(UsageError, match="only=") as refused:
        read_only(only)
    assert told in str(refused.value)


def test_a_sample_has_one_cell_of_each_phase_and_is_the_same_for_the_same_seed() -> None:
    found = [sample(cells(OUTLINE), seed) for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    assert Counter(cell.phase for cell in found[0]) == dict.fromkeys(PHASES, 1)


def test_drawn_plans_are_valid_differ_by_seed_and_begin_alike_however_many_are_drawn() -> None:
    few, many, others = plans(OUTLINE, 20, 7), plans(OUTLINE, 200, 7), plans(OUTLINE, 20, 8)
    assert many[:20] == few != others
    for cell in many:
        faults = fault_plan.parse(cell.kind)
        assert 1 <= len(faults) <= 4
        assert len({fault.step for fault in faults}) == len({fault.kind for fault in faults}) == len(faults)
        assert not STOPS.intersection(cell.kinds)
        assert all(1 <= fault.step <= OUTLINE.steps for fault in faults)
    assert {kind for cell in many for kind in cell.kinds} == set(fault_plan.KINDS) - STOPS


def test_the_control_comes_first_unless_cells_are_named() -> None:
    assert Selection().of(OUTLINE)[0].name == CONTROL
    assert Selection(plans=3).of(OUTLINE)[0].name == CONTROL
    assert [cell.name for cell in Selection(only=(("kill", "resume"),)).of(OUTLINE)] == ["kill@resume"]
    with pytest.raises(UsageError, match="has no validation"):
        Selection(only=(("kill", "validation"),)).of(replace(OUTLINE, validation=False))


def test_the_cadence_and_what_it_permits() -> None:
    settings, kill = Settings(recipe="mlflow_resilience.recipes.digits"), Cell("kill", "mid_epoch")
    assert (settings.cadence(OUTLINE), settings.permitted_steps(OUTLINE, kill)) == ("15steps", 45)
    for every, permitted in {"40steps": 80, "1epoch": 90, "auto": 135, "30s": 135}.items():
        assert replace(settings, every=every).permitted_steps(OUTLINE, kill) == permitted


def test_what_is_trained_while_a_save_is_made_or_hangs_may_be_lost() -> None:
    settings, quick = Settings(recipe="mlflow_resilience.recipes.digits"), replace(OUTLINE, step_seconds=0.1)
    assert settings.permitted_steps(quick, Cell("kill", "checkpoint_write")) == 50
    assert settings.permitted_steps(quick, Cell("hang", "validation")) == 50
    assert settings.permitted_steps(quick, Cell("hang", "checkpoint_write")) == 135
    assert settings.permitted_steps(OUTLINE, Cell("hang", "publishing")) == 45


def test_one_epoch_is_too_few() -> None:
    with pytest.raises(UsageError, match="epochs=1: 2 or more"):
        Settings(recipe="r.py", epochs=1)


def test_all_kinds_are_known_by_their_names() -> None:
    assert len(set(KINDS)) == len(KINDS)
