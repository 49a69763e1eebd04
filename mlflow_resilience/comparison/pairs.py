"""Which runs are judged against which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from mlflow_resilience.comparison.values import ComparedRun
from mlflow_resilience.comparison.verdict import Verdict, judge

ALL_PAIRS = 6  # up to so many runs; more pairs than that nobody reads


@dataclass(frozen=True)
class Pair:
    """Two runs, and the verdict on them."""

    a: ComparedRun
    b: ComparedRun
    verdict: Verdict


def judged(runs: Sequence[ComparedRun]) -> list[Pair]:
    """Every pair of a few runs; of many, each with the one that all are measured by."""
    if len(runs) <= ALL_PAIRS:
        chosen = list(combinations(runs, 2))
    else:
        first = reference(runs)
        chosen = [(first, run) for run in runs if run is not first]
    return [Pair(a, b, judge(a, b)) for a, b in chosen]


def reference(runs: Sequence[ComparedRun]) -> ComparedRun:
    """The first undisturbed result, else the first result, else the first run."""
    undisturbed = [run for run in runs if run.finished and not run.faults and not run.changes]
    return next(iter([*undisturbed, *(run for run in runs if run.finished), *runs]))
