"""A drill that has nothing more to run: it goes on where it was, and refuses what it cannot do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlflow_resilience.drill.cell_run import outline_of
from mlflow_resilience.drill.drilling import drill
from mlflow_resilience.drill.matrix import Outline
from mlflow_resilience.drill.results import Result, Results
from mlflow_resilience.drill.settings import Selection, Settings, folder_of
from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool.lease import Lease
from tests.drill.examples import UNDISTURBED, result

SELECTION = Selection(only=(("kill", "resume"), ("kill", "epoch_end")))
CELLS = [result("kill@resume", "IDENTICAL"), result("kill@epoch_end", "LOST_WORK")]


class Listening:
    """What a drill tells."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []
        self.begun: list[str] = []

    def begins(self, total: int, done: int) -> None:
        self.told.append((total, done))

    def started(self, name: str) -> None:
        self.begun.append(name)

    def ended(self, result: Result) -> None: ...


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a recipe whose drill is done."""
    recipe = tmp_path / "mine.py"
    recipe.write_text("def build_model(params): ...\ndef load_data(params): ...\n")
    settings = Settings(recipe=str(recipe))
    results = Results(folder_of(tmp_path, settings) / "results.jsonl")
    results.set_undisturbed(replace(UNDISTURBED, resume_key="0123"))
    for each in CELLS:
        results.add(each)
    return settings


def test_what_is_done_is_not_run_again_and_stands_in_the_order_of_the_matrix(
    settings: Settings, tmp_path: Path
) -> None:
    view = Listening()
    done = drill(settings, SELECTION, tmp_path, view, check=["0123"])
    assert (view.told, view.begun) == ([(2, 2)], [])
    assert done.results == CELLS[::-1]
    card = done.card(settings, SELECTION)
    assert (card.resume_key, card.passed, card.selection) == ("0123", True, "kill@resume, kill@epoch_end")


def test_another_models_recipe_is_refused_before_anything_is_struck(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="resume key 0123, and the model another one"):
        drill(settings, SELECTION, tmp_path, Listening(), check=["4567"])


def test_two_drills_of_one_recipe_do_not_run_at_once(settings: Settings, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, settings)
    lease = Lease.take(folder / "lease", "drill")
    assert lease is not None
    with lease, pytest.raises(UsageError, match="another drill of this recipe is running"):
        drill(settings, SELECTION, tmp_path, Listening())


def test_the_outline_is_that_of_the_undisturbed_run() -> None:
    told = Outline(epoch_steps=10, steps=30, step_seconds=0.5, validation=True, checkpoints=True, models=True)
    assert outline_of(replace(UNDISTURBED, step_seconds=0.5)) == told
    plain = replace(UNDISTURBED, curves={"loss": UNDISTURBED.curves["loss"]}, models=0)
    assert not outline_of(plain).validation and not outline_of(plain).models
