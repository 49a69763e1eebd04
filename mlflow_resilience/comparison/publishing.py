"""The run in MLflow that keeps a comparison. It is marked as one, and so never taken for a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlflow.tracking import MlflowClient

from mlflow_resilience.comparison.finding import COMPARISON
from mlflow_resilience.comparison.pairs import Pair
from mlflow_resilience.comparison.values import ComparedRun

PAGE, OVERLAY = "resilience/comparison.html", "resilience/plots/overlay.svg"
_MOST_LINES = 40
_TAG = 4000


def mark(client: MlflowClient, run_id: str) -> None:
    """Say that this run is a comparison, before anything else can go wrong."""
    client.set_tag(run_id, COMPARISON, "true")


def publish(
    client: MlflowClient, experiment_id: str, own_run: str | None, name: str, artifacts: Mapping[str, str], text: str
) -> str:
    """Log the artifacts (path to text) to the caller's run, whose end is the caller's, or to a new one: its id."""
    run_id = own_run
    if run_id is None:
        run_id = str(client.create_run(experiment_id, tags={COMPARISON: "true"}, run_name=name).info.run_id)
    status = "FAILED"
    try:
        mark(client, run_id)
        client.set_tag(run_id, "mlflow.note.content", text)
        for path, content in artifacts.items():
            client.log_text(run_id, content, path)
        status = "FINISHED"
    finally:
        if own_run is None:
            client.set_terminated(run_id, status)
    return run_id


def description(runs: Sequence[ComparedRun], pairs: Sequence[Pair]) -> str:
    """A few lines of Markdown: each verdict. Names are code, so that nothing in them is markup."""
    lines = [f"{len(runs)} runs compared.", ""]
    for pair in pairs[:_MOST_LINES]:
        lines.append(f"- {_code(pair.a.label)} and {_code(pair.b.label)}: {_code(pair.verdict.sentence)}")
    if len(pairs) > _MOST_LINES:
        lines.append(f"- and {len(pairs) - _MOST_LINES} more in {PAGE}")
    return "\n".join(lines)[:_TAG]


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"
