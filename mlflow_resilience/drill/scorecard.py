"""A drill's results as rows, counts, a document and tags: the same for the terminal, the figure, JSON and MLflow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_resilience.drill.matrix import CONTROL, KINDS, PHASES
from mlflow_resilience.drill.results import Result
from mlflow_resilience.drill.verdict import BAD, IDENTICAL, WORDS
from mlflow_resilience.summary import count

FORMAT = 1
#: Short enough for a cell of the matrix.
SHORT = {
    "IDENTICAL": "identical",
    "STOPPED_RIGHTLY": "stopped",
    "CHANGED": "changed",
    "LOST_WORK": "lost work",
    "SILENT_DIVERGENCE": "SILENT",
    "HARD_FAIL": "FAILED",
}


@dataclass(frozen=True, kw_only=True)
class Scorecard:
    """The results of one drill. ``made`` is when, as text in UTC; ``versions`` as MLflow's tags have them."""

    recipe: str
    selection: str
    results: Sequence[Result]
    resume_key: str
    made: str
    versions: Mapping[str, str]
    params: Mapping[str, str]

    @property
    def counts(self) -> dict[str, int]:
        """Of each verdict, from the best to the worst."""
        return {word: sum(each.verdict.word == word for each in self.results) for word in WORDS}

    @property
    def bad(self) -> list[Result]:
        return [each for each in self.results if each.verdict.word in BAD]

    @property
    def passed(self) -> bool:
        return not self.bad

    @property
    def headline(self) -> str:
        """One sentence."""
        told = ", ".join(f"{number} {word}" for word, number in self.counts.items() if number)
        return f"{'passed' if self.passed else 'FAILED'}: {count(len(self.results), 'cell')}: {told or 'none'}"

    def worth_telling(self) -> list[Result]:
        """Those whose verdict needs its sentence, the worst first."""
        told = [each for each in self.results if each.verdict.word != IDENTICAL]
        return sorted(told, key=lambda each: -WORDS.index(each.verdict.word))

    def matrix(self) -> tuple[list[str], list[str], dict[tuple[str, str], Result]]:
        """Phases, kinds, and the result of each that there is."""
        found = {(each.cell.kind, each.cell.phase): each for each in self.results if each.cell.phase in PHASES}
        phases = [phase for phase in PHASES if any(there == phase for _, there in found)]
        kinds = [kind for kind in KINDS if any(there == kind for there, _ in found)]
        return phases, kinds, found

    def beside(self) -> list[Result]:
        """The control and the plans, which no matrix has."""
        return [each for each in self.results if each.cell.phase not in PHASES]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: numbers that are none are null."""
        return {
            "format": FORMAT,
            "recipe": self.recipe,
            "selection": self.selection,
            "passed": self.passed,
            "counts": self.counts,
            "resume_key": self.resume_key,
            "made": self.made,
            "versions": dict(self.versions),
            "params": dict(self.params),
            "cells": [_cell(each) for each in self.results],
        }

    def tags(self) -> dict[str, str]:
        """What a promotion can ask for."""
        drill = "resilience.drill"
        numbers = {f"{drill}.{word.lower()}": str(number) for word, number in self.counts.items()}
        control = next((each for each in self.results if each.cell.name == CONTROL), None)
        repeats = {} if control is None else {f"{drill}.repeats_itself": str(control.verdict.word == IDENTICAL).lower()}
        return {
            f"{drill}.verdict": "passed" if self.passed else "failed",
            f"{drill}.cells": str(len(self.results)),
            **numbers,
            **repeats,
            f"{drill}.recipe": self.recipe,
            f"{drill}.selection": self.selection,
            f"{drill}.resume_key": self.resume_key,
            f"{drill}.date": self.made,
            **{f"{drill}.{key.removeprefix('resilience.')}": value for key, value in self.versions.items()},
        }


def _cell(result: Result) -> dict[str, Any]:
    told = result.to_dict()
    verdict = told.pop("verdict")
    verdict["metrics"] = {key: _number(value) for key, value in verdict["metrics"].items()}
    verdict["weights"] = _number(verdict["weights"])
    cell = told.pop("cell")
    return {"name": told.pop("name"), **cell, "verdict": verdict.pop("word"), **verdict, **told}


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
