"""The comparison as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from mlflow_resilience import summary
from mlflow_resilience.comparison import noise
from mlflow_resilience.comparison.pairs import Pair
from mlflow_resilience.comparison.plots import overlay_svg
from mlflow_resilience.comparison.table import table
from mlflow_resilience.comparison.values import ComparedRun

_MOST_DETAILS = 20
_OUTCOMES = ("clean", "recovered", "finished", "failed", "preempted", "running")


def _finalize(value: Any) -> Any:
    return summary.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


#: All values are escaped by the template engine. The style sheet is that of the report.
_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader([Path(__file__).parent, Path(__file__).parents[1] / "report"]),
    autoescape=True,
    finalize=_finalize,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters["line"] = summary.one_line


@dataclass(frozen=True)
class Places:
    """Where MLflow's own pages are: the address of each run and of its compare view, or how to open the store."""

    runs: Mapping[str, str] = field(default_factory=dict)
    compare: str = ""
    opened_by: str = ""


def render(
    title: str,
    runs: Sequence[ComparedRun],
    pairs: Sequence[Pair],
    places: Places,
    overlay: str | None,
    *,
    note: str = "",
    made: str = "",
) -> str:
    """The page: no network, no script, light and dark, readable at 400 pixels. ``overlay`` is the wide drawing."""
    shown = table(runs)
    rows: list[dict[str, Any]] = [
        {"run": run, "cells": cells, "link": places.runs.get(run.run_id, ""), "class": _class(run)}
        for run, cells in zip(runs, shown.rows, strict=True)
    ]
    return _templates.get_template("comparison.html.j2").render(
        title=title,
        runs=runs,
        rows=rows,
        table=shown,
        differing=[{"label": run.label, "params": told} for run, told in zip(runs, shown.params, strict=False)],
        pairs=pairs,
        places=places,
        note=note,
        made=made,
        noise=noise,
        overlay=_figures(overlay, overlay_svg(runs, narrow=True) if overlay else None),
        drawn=sum(bool(run.curves) for run in runs),
        details=[row for row in rows if row["run"].attempt_lines or row["run"].last_words][:_MOST_DETAILS],
    )


def _class(run: ComparedRun) -> str:
    return run.outcome if run.outcome in _OUTCOMES else "preempted"


def _figures(wide: str | None, narrow: str | None) -> dict[str, Markup] | None:
    """Our own drawing, which matplotlib has escaped: the one thing that goes into the page as it is."""
    return None if wide is None or narrow is None else {"wide": Markup(wide), "narrow": Markup(narrow)}
