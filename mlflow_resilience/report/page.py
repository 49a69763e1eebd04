"""The report as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from mlflow_resilience import plots, summary
from mlflow_resilience.report import faults, forensics, tables, tracebacks, view
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.undisturbed import CleanRun, in_words


def _finalize(value: Any) -> Any:
    """No control character reaches the page, wherever a text stands in the record."""
    return summary.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


#: Everything from the record is escaped by the template engine; a name that is missing in it is an error.
_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    finalize=_finalize,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_LARGEST = 950_000
_TRACEBACK_ROOM = (250_000, 50_000, 0)
_OUTCOMES = ("clean", "recovered", "failed", "preempted", "running")
_VERDICTS = {
    "identical": "Yes: identical",
    "equal within rounding": "Yes: equal within rounding",
    "changed": "Finished, but not identical",
    "not promised": "Not promised",
    "unfinished": "Not finished yet",
    "no result": "No result",
    "running": "Still running",
}
_templates.filters |= {
    "clean": summary.clean,
    "line": summary.one_line,
    "duration": summary.duration,
    "moment": view.moment,
    "size": tables.size,
}


def render(record: JobRecord, clean: CleanRun | None = None) -> str:
    """The job's page: no network, no script, light and dark, readable at 400 pixels, below 1 MB. ``clean`` is what the
    result is held against, where there is such a run."""
    values = _values(record) | {"against": in_words(record, clean)}
    page = ""
    for room in _TRACEBACK_ROOM:  # what gives way when there is too much is the text of tracebacks
        whole, left_out = tracebacks.collect(record, room)
        page = _templates.get_template("page.html.j2").render(values, tracebacks=whole, tracebacks_left_out=left_out)
        if len(page.encode()) < _LARGEST:
            break
    return page


def _values(record: JobRecord) -> dict[str, Any]:
    verdict = summary.verdict(record)
    return {
        "record": record,
        "title": view.title(record),
        "headline": summary.headline(record),
        "outcome_class": record.outcome if record.outcome in _OUTCOMES else "failed",
        "verdict": verdict,
        "verdict_title": _VERDICTS[verdict.word],
        "on_purpose": summary.on_purpose(record),
        "facts": view.facts(record),
        "answers": view.answers(record),
        "attempts": view.attempts(record),
        "attempts_left_out": max(0, len(record.attempts) - view.MOST_ATTEMPTS),
        "faults": faults.table(record),
        "curves": _figures(plots.training_curves_svg(record), plots.training_curves_svg(record, narrow=True)),
        "memory": _figures(plots.memory_svg(record), plots.memory_svg(record, narrow=True)),
        "high_water": forensics.high_water(record),
        "times": tables.times(record),
        "restarts": tables.restarts(record),
        "checkpoints": tables.checkpoints(record),
        "models": tables.models(record),
        "quarantined": tables.quarantined(record),
        "changes": summary.changes(record),
        "params": dict(list(record.params.items())[:200]),
        "events": tables.events(record),
    }


def _figures(wide: str | None, narrow: str | None) -> dict[str, Markup] | None:
    """Our own drawing, which matplotlib has escaped: the one thing that goes into the page as it is."""
    return None if wide is None or narrow is None else {"wide": Markup(wide), "narrow": Markup(narrow)}
