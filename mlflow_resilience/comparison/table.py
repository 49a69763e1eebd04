"""Runs as rows of text, the same for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlflow_resilience.comparison.differences import differing
from mlflow_resilience.comparison.values import ComparedRun
from mlflow_resilience.summary import duration, one_line

_MOST_METRICS = 6
_MOST_PARAMS = 12
NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """Column names, one row of cells for each run, and which columns are figures (numbers, set to the right)."""

    columns: list[str]
    rows: list[list[str]]
    figures: frozenset[int]
    params: list[list[str]]  # of each run, those that are not the same in all: "name=value"; empty where none are
    left_out: str = ""  # which metrics and params there was no room for


def table(runs: Sequence[ComparedRun]) -> Table:
    """Outcome, attempts, failure classes, final metrics and cost; and the params that differ."""
    metrics, params = _metrics(runs), differing(runs)
    columns = ["run", "outcome", "attempts", "failure classes", *(one_line(key, 40) for key in metrics[:_MOST_METRICS])]
    columns += ["lost steps", "goodput", "wall time"]
    rows = [
        [
            run.label,
            run.outcome + (", deleted" if run.deleted else ""),
            NOTHING if run.attempts is None else f"{run.attempts:,}",
            ", ".join(run.failure_classes) or NOTHING,
            *(number(run.metrics.get(key)) for key in metrics[:_MOST_METRICS]),
            NOTHING if run.lost_steps is None else f"{run.lost_steps:,}",
            NOTHING if run.goodput is None or not math.isfinite(run.goodput) else f"{run.goodput:.0%}",
            NOTHING if run.seconds is None else duration(run.seconds),
        ]
        for run in runs
    ]
    told = [params_told(run, params[:_MOST_PARAMS]) for run in runs] if params else []
    left_out = _left_out(metrics[_MOST_METRICS:], params[_MOST_PARAMS:])
    return Table(columns, rows, frozenset({2, *range(4, len(columns))}), told, left_out)


def _metrics(runs: Sequence[ComparedRun]) -> list[str]:
    """Those of validation and the losses first."""
    keys = dict.fromkeys(key for run in runs for key in run.metrics)
    return sorted(keys, key=lambda key: (not key.startswith("val_"), "loss" not in key, key))


def number(value: float | None) -> str:
    """A metric in four digits."""
    if value is None:
        return NOTHING
    return "NaN" if math.isnan(value) else f"{value:.4g}"


def params_told(run: ComparedRun, keys: Sequence[str]) -> list[str]:
    """``name=value`` of each."""
    return [f"{one_line(key, 40)}={one_line(run.params[key], 60)}" for key in keys if key in run.params]


def _left_out(metrics: Sequence[str], params: Sequence[str]) -> str:
    told = [
        f"{len(keys)} more {what} ({one_line(', '.join(keys), 120)})"
        for what, keys in (("metrics", metrics), ("params that differ", params))
        if keys
    ]
    return "not shown: " + " and ".join(told) if told else ""
