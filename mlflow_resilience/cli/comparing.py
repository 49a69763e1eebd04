"""One comparison, put together: runs found, read and judged, the page made and logged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mlflow_resilience.cli.last_words import command as opening
from mlflow_resilience.comparison import finding, links, publishing
from mlflow_resilience.comparison.page import render
from mlflow_resilience.comparison.pairs import Pair, judged
from mlflow_resilience.comparison.plots import overlay_svg
from mlflow_resilience.comparison.reading import read
from mlflow_resilience.comparison.values import ComparedRun
from mlflow_resilience.core.redaction import redact
from mlflow_resilience.summary import count, one_line


@dataclass(frozen=True)
class Comparison:
    """What was made: ``see`` opens it, where it was logged."""

    runs: list[ComparedRun]
    pairs: list[Pair]
    page: str
    note: str
    see: str


def compare(
    client: Any, uri: str, run_ids: Sequence[str], experiment: str, outcomes: Sequence[str], *,
    own_run: str | None = None, log: bool = True,
) -> Comparison:  # fmt: skip
    """Compare the runs, and keep it in ``own_run`` or in a new run. Raises UsageError."""
    if own_run is not None:
        publishing.mark(client, own_run)
    found, title, note, home = _found(client, run_ids, experiment, outcomes)
    runs = read(client, [run for run in found if run.info.run_id != own_run])
    pairs = judged(runs)
    where = {"tracking_uri": redact(links.base(uri) or uri)}
    first = runs[0].experiment_id if runs else home
    opened_by = opening({**where, "experiment_id": first, "run_id": runs[0].run_id if runs else ""})
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    title = title or f"{count(len(runs), 'run')}: {' and '.join(run.name or run.run_id[:8] for run in runs[:3])}"
    drawn = overlay_svg(runs)
    page = render(title, runs, pairs, links.places(uri, runs, opened_by), drawn, note=note, made=made)
    if not log:
        return Comparison(runs, pairs, page, note, opened_by)
    artifacts = {publishing.PAGE: page, **({publishing.OVERLAY: drawn} if drawn else {})}
    text = publishing.description(runs, pairs)
    name = one_line(f"comparison: {title}", 120)
    run_id = publishing.publish(client, home, own_run, name, artifacts, text)
    kept_in = client.get_run(run_id).info.experiment_id
    return Comparison(runs, pairs, page, note, opening({**where, "experiment_id": kept_in, "run_id": run_id}))


def _found(
    client: Any, run_ids: Sequence[str], experiment: str, outcomes: Sequence[str]
) -> tuple[list[Any], str, str, str]:
    """Runs, title, a note, and the experiment that a new run of ours would be in."""
    if not experiment:
        found = finding.named(client, run_ids)
        return found, "", "", _home(client, found)
    known = finding.experiment(client, experiment)
    found, more = finding.of_experiment(client, known.experiment_id, outcomes)
    only = f"only {', '.join(outcomes)}" if outcomes else ""
    left_out = f"the newest {len(found)}; there are more" if more else ""
    note = "; ".join(part for part in (only, left_out) if part)
    return found, f"experiment {known.name}", note, str(known.experiment_id)


def _home(client: Any, found: Sequence[Any]) -> str:
    """The experiment of the first run that is not in a deleted one."""
    for run in found:
        if client.get_experiment(run.info.experiment_id).lifecycle_stage == "active":
            return str(run.info.experiment_id)
    return "0"
