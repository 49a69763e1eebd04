"""The drill in MLflow: a run that keeps its scorecard, and tags on the model that was drilled."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow_resilience.drill import figure
from mlflow_resilience.drill.junit import junit
from mlflow_resilience.drill.scorecard import Scorecard
from mlflow_resilience.errors import UsageError
from mlflow_resilience.summary import one_line

DRILL = "resilience.drill"
_FOLDER = "resilience/drill"
_TAG, _MOST_LINES = 4000, 40


def files(card: Scorecard) -> dict[str, bytes]:
    """The scorecard as files, by their names."""
    return {
        "scorecard.json": (json.dumps(card.to_dict(), indent=1) + "\n").encode(),
        "junit.xml": junit(card).encode(),
        "matrix.svg": figure.svg(card).encode(),
        "matrix.png": figure.png(card),
    }


def publish(client: Any, card: Scorecard, experiment_id: str, own_run: str | None) -> str:
    """Log it to the caller's run, whose end is the caller's, or to a new one: its id."""
    run_id = own_run
    if run_id is None:
        name = one_line(f"drill: {card.recipe}", 120)
        run_id = str(client.create_run(experiment_id, tags={DRILL: "true"}, run_name=name).info.run_id)
    status = "FAILED"
    try:
        _tell(client, run_id, card)
        status = "FINISHED"
    finally:
        if own_run is None:
            client.set_terminated(run_id, status)
    return run_id


def drilled_model(client: Any, name: str) -> Any:
    """The logged model of this id; or, of a run's id, the newest ``model`` that the run has logged. Raises
    UsageError."""
    from mlflow.exceptions import MlflowException

    try:
        if name.startswith("m-"):
            return client.get_logged_model(name)
        run = client.get_run(name)
        text = f"name = 'model' AND source_run_id = '{name}'"
        order = [{"field_name": "creation_timestamp", "ascending": False}]
        found = client.search_logged_models([run.info.experiment_id], text, max_results=1, order_by=order)
    except MlflowException as error:
        raise UsageError(f"model={name}: {one_line(error, 200)}") from error
    if not found:
        raise UsageError(f"model={name}: this run has logged no model that is named `model`")
    return found[0]


def resume_key(client: Any, model: Any) -> str:
    """The resume key of the run that a model is from; empty where none is known."""
    from mlflow.exceptions import MlflowException

    if not model.source_run_id:
        return ""
    try:
        return str(client.get_run(model.source_run_id).data.tags.get("resilience.resume_key") or "")
    except MlflowException:
        return ""


def tag(client: Any, model: Any, card: Scorecard, run_id: str) -> None:
    """The same tags on the model, and the run that has the scorecard."""
    told = card.tags() | ({f"{DRILL}.run": run_id} if run_id else {})
    client.set_logged_model_tags(model.model_id, told)


def _tell(client: Any, run_id: str, card: Scorecard) -> None:
    tags: Mapping[str, str] = {DRILL: "true", **card.tags(), "mlflow.note.content": _description(card)}
    for name, value in tags.items():
        client.set_tag(run_id, name, value)
    with tempfile.TemporaryDirectory() as place:
        for name, content in files(card).items():
            Path(place, name).write_bytes(content)
        client.log_artifacts(run_id, place, _FOLDER)


def _description(card: Scorecard) -> str:
    """A few lines of Markdown. Names are code, so that nothing in them is markup."""
    told = card.worth_telling()
    lines = [f"**{card.headline}**", "", f"{_code(card.recipe)}: {card.selection}", ""]
    for each in told[:_MOST_LINES]:
        lines.append(f"- {_code(each.cell.name)}: {each.verdict.word}: {_code(one_line(each.verdict.text, 300))}")
    if len(told) > _MOST_LINES:
        lines.append(f"- and {len(told) - _MOST_LINES} more in {_FOLDER}/scorecard.json")
    return "\n".join(lines)[:_TAG]


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"
