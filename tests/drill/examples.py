"""Facts and results as drills have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlflow_resilience.drill.facts import Facts
from mlflow_resilience.drill.matrix import Cell
from mlflow_resilience.drill.results import Result
from mlflow_resilience.drill.scorecard import Scorecard
from mlflow_resilience.drill.verdict import Verdict

CURVES = {"loss": [(10, 1.0), (20, 0.8), (30, 0.7)], "val_loss": [(10, 1.1), (20, 0.9), (30, 0.85)]}
UNDISTURBED = Facts(codes=(0,), outcomes=("clean",), digest="aa", curves=CURVES, checkpoints=3, models=2)
RECOVERED = replace(UNDISTURBED, outcomes=("recovered",), struck=("kill@15",), classes=("process_death",))


def result(name: str, word: str, text: str = "", **more: Any) -> Result:
    kind, _, phase = name.partition("@")
    cell = Cell(name, "plan") if "," in name else Cell(kind, phase)
    return Result(cell=cell, verdict=Verdict(word, text or f"it is {word}"), seconds=1.5, **more)


def card(*results: Result) -> Scorecard:
    return Scorecard(
        recipe="my_recipe.py",
        selection="the whole matrix",
        results=results,
        resume_key="0123abcd",
        made="2026-01-01T00:00:00+00:00",
        versions={"resilience.version.keras": "3.0"},
        params={"epochs": "3"},
    )
