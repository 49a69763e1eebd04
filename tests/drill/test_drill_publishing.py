"""A drill in MLflow: its run, and the tags on the model that was drilled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from mlflow_resilience.cli.drill_log import DrillLog
from mlflow_resilience.comparison.finding import of_experiment
from mlflow_resilience.drill import publishing
from mlflow_resilience.drill.store import Store
from mlflow_resilience.errors import UsageError
from tests.drill.examples import card, result

CARD = card(result("kill@resume", "IDENTICAL"), result("nan@mid_epoch", "SILENT_DIVERGENCE", "`another` model"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def client(store: Store) -> MlflowClient:
    return MlflowClient(store.uri)


@pytest.fixture
def experiment(store: Store, tmp_path: Path) -> Iterator[str]:
    yield store.experiment("drilled", tmp_path / "artifacts")[1]


def trained(client: MlflowClient, experiment: str, **tags: str) -> tuple[str, Any]:
    """A job run, and the model that it has logged."""
    run = client.create_run(experiment, tags={f"resilience.{name}": value for name, value in tags.items()})
    model = client.create_logged_model(experiment, name="model", source_run_id=run.info.run_id)
    return run.info.run_id, model


def test_each_experiment_of_a_cell_is_a_new_one_and_knows_what_still_runs(
    store: Store, client: Any, tmp_path: Path
) -> None:
    (first, one), (second, _) = (store.experiment("kill-resume", tmp_path) for _ in range(2))
    assert first != second
    run = client.create_run(one, run_name="attempt 1")
    assert store.running(one) == ["attempt 1"]
    client.set_terminated(run.info.run_id)
    assert store.running(one) == []


def test_the_run_has_tags_figure_and_files_and_is_no_job(client: MlflowClient, experiment: str, tmp_path: Path) -> None:
    job, _ = trained(client, experiment, outcome="clean")
    run_id = publishing.publish(client, CARD, experiment, None)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["resilience.drill"] == "true"
    assert CARD.tags().items() <= run.data.tags.items()
    assert "`nan@mid_epoch`: SILENT_DIVERGENCE: `'another' model`" in run.data.tags["mlflow.note.content"]
    place = Path(client.download_artifacts(run_id, "resilience/drill", str(tmp_path)))
    assert json.loads((place / "scorecard.json").read_text()) == json.loads(json.dumps(CARD.to_dict()))
    assert {"junit.xml", "matrix.svg", "matrix.png"} < {path.name for path in place.iterdir()}
    assert [each.info.run_id for each in of_experiment(client, experiment, [])[0]] == [job]


def test_the_callers_run_is_used_and_its_end_left_to_the_caller(client: MlflowClient, experiment: str) -> None:
    own = client.create_run(experiment).info.run_id
    assert publishing.publish(client, CARD, experiment, own) == own
    run = client.get_run(own)
    assert run.info.status == "RUNNING" and run.data.tags["resilience.drill.verdict"] == "failed"


def test_a_model_is_found_by_its_id_or_its_run_and_tagged(client: MlflowClient, experiment: str) -> None:
    run_id, model = trained(client, experiment, resume_key="0123abcd")
    for name in (run_id, model.model_id):
        assert publishing.drilled_model(client, name).model_id == model.model_id
    log = DrillLog(client, "", model=run_id)
    assert log.keys == ("0123abcd",)
    log.publish(CARD)
    tags = client.get_logged_model(model.model_id).tags
    assert tags["resilience.drill.silent_divergence"] == "1"
    told = client.get_run(tags["resilience.drill.run"])
    assert told.info.experiment_id == experiment, "beside the model, where no experiment is named"


def test_a_model_that_is_not_there_is_refused(client: MlflowClient, experiment: str) -> None:
    empty = client.create_run(experiment).info.run_id
    with pytest.raises(UsageError, match="has logged no model"):
        publishing.drilled_model(client, empty)
    for name in ("m-0123", "0123"):
        with pytest.raises(UsageError, match=f"model={name}: "):
            publishing.drilled_model(client, name)


def test_nothing_is_logged_where_that_is_not_wanted() -> None:
    with DrillLog.opened(None, "", "", wanted=False) as log:
        assert log.publish(CARD) == ""
