"""Drills of small recipes, as a user runs them: from the command to the run in MLflow."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from mlflow import MlflowClient

from mlflow_resilience.drill.processes import eventually, left_running
from tests.edges.main_job import ROOT, environ, run

HERE = Path(__file__).parent
TINY, FORGETFUL = str(HERE / "tiny_recipe.py"), str(HERE / "forgetful_recipe.py")
SEED = os.environ["MATRIX_SEED"]

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Drilled:
    """A drill that has ended."""

    code: int
    output: str
    folder: Path

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(f"sqlite:///{self.folder / 'mlflow.db'}")

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "card.json").read_text())
        return document

    @property
    def verdicts(self) -> dict[str, str]:
        return {cell["name"]: cell["verdict"] for cell in self.document["cells"]}


def command(folder: Path, *options: str) -> list[str]:
    files = ["--json", str(folder / "card.json"), "--junit", str(folder / "junit.xml")]
    return [sys.executable, "-m", "mlflow_resilience.cli", "drill", *options, *files]


def drill(folder: Path, *options: str, timeout: float = 600) -> Drilled:
    store = f"sqlite:///{folder / 'mlflow.db'}"
    ended = run(folder, *command(folder, *options), timeout=timeout, MLFLOW_TRACKING_URI=store)
    return Drilled(ended.code, ended.output, folder)


@pytest.mark.full
def test_a_piece_of_the_state_that_is_left_out_turns_the_verdict(tmp_path: Path) -> None:
    """The twin of every drill: it can tell, in all that it writes."""
    ended = drill(tmp_path, FORGETFUL, "--only", "raise@mid_epoch", "--epochs", "2", "--no-log")
    assert ended.code == 1, ended.output
    assert ended.verdicts == {"raise@mid_epoch": "SILENT_DIVERGENCE"}
    assert "FAILED: 1 cell: 1 SILENT_DIVERGENCE" in ended.output
    (cell,) = ended.document["cells"]
    assert cell["weights"] > 0 and cell["metrics"] and Path(cell["kept"]).is_dir()
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert suite.get("failures") == "1"
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.full
def test_what_is_whole_comes_through_and_the_same_command_has_nothing_more_to_do(tmp_path: Path) -> None:
    ended = drill(tmp_path, TINY, "--only", "raise@mid_epoch,term@mid_epoch", "--epochs", "2")
    assert ended.code == 0, ended.output
    assert ended.verdicts == {"raise@mid_epoch": "IDENTICAL", "term@mid_epoch": "STOPPED_RIGHTLY"}
    (logged,) = ended.client.search_runs(["0"])
    assert logged.data.tags["resilience.drill.identical"] == "1"
    files = {each.path for each in ended.client.list_artifacts(logged.info.run_id, "resilience/drill")}
    assert {Path(path).name for path in files} == {"scorecard.json", "junit.xml", "matrix.svg", "matrix.png"}
    assert not left_running(tmp_path)
    again = drill(tmp_path, TINY, "--only", "raise@mid_epoch,term@mid_epoch", "--epochs", "2", timeout=60)
    assert again.code == 0 and "2 cells, 2 of them done already" in again.output
    assert again.verdicts == ended.verdicts


@pytest.mark.full
def test_interrupted_it_leaves_no_process_and_goes_on_where_it_was(tmp_path: Path) -> None:
    only = ["--only", "raise@mid_epoch,nan@mid_epoch", "--epochs", "2"]
    store, log = f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "log"
    sign = f"MLFLOW_RESILIENCE_DRILL_CELL={tmp_path}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(tmp_path, TINY, *only),
            cwd=tmp_path,
            env=environ(MLFLOW_TRACKING_URI=store, PYTHONUNBUFFERED="1"),
            stdout=output,
            stderr=output,
            preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a background shell ignores it
        )
    try:
        assert eventually(lambda: "[1/2]" in log.read_text(), 400), log.read_text()
        assert eventually(lambda: bool(left_running(sign)), 60)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert code == 130
    assert not left_running(sign)
    ended = drill(tmp_path, TINY, *only)
    assert "2 cells, 1 of them done already" in ended.output
    assert ended.code == 0, ended.output
    assert set(ended.verdicts.values()) <= {"IDENTICAL", "CHANGED"}


@pytest.mark.full
def test_a_model_is_tagged_with_the_verdict_and_another_recipes_model_is_refused(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    trained = run(tmp_path, sys.executable, "-m", "mlflow_resilience.cli", "train", TINY, MLFLOW_TRACKING_URI=store)
    assert trained.code == 0, trained.output
    client = MlflowClient(store)
    (job,) = [each for each in client.search_runs(["0"]) if "mlflow.parentRunId" not in each.data.tags]
    ended = drill(tmp_path, TINY, "--only", "raise@mid_epoch", "--epochs", "2", "--model", job.info.run_id)
    assert ended.code == 0, ended.output
    (model,) = client.search_logged_models(["0"], "name = 'model'")
    assert model.tags["resilience.drill.verdict"] == "passed"
    assert model.tags["resilience.drill.resume_key"] == job.data.tags["resilience.resume_key"]
    other = drill(tmp_path, FORGETFUL, "--only", "raise@mid_epoch", "--epochs", "2", "--model", job.info.run_id)
    assert other.code == 2 and "the model another one" in other.output


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_a_sample_of_every_phase_comes_through(tmp_path: Path) -> None:
    ended = drill(tmp_path, TINY, "--quick", "--seed", SEED, timeout=1400)
    assert ended.code == 0, ended.output
    assert "LOST_WORK" not in ended.verdicts.values(), ended.output


@pytest.mark.full
@pytest.mark.timeout(900)
def test_drawn_plans_of_several_faults_come_through(tmp_path: Path) -> None:
    ended = drill(tmp_path, TINY, "--random", "4", "--seed", SEED, timeout=800)
    assert ended.code == 0, ended.output
    assert len(ended.verdicts) == 5


@pytest.mark.full
def test_it_is_an_entry_point_whose_run_keeps_the_scorecard(tmp_path: Path) -> None:
    project = [sys.executable, "-m", "mlflow", "run", str(ROOT), "-e", "drill", "--env-manager", "local"]
    options = ["-P", f"recipe={TINY}", "-P", "only=raise@mid_epoch", "-P", "epochs=2"]
    ended = run(tmp_path, *project, *options, MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert ended.code == 0, ended.output
    (logged,) = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}").search_runs(["0"])
    assert logged.data.tags["resilience.drill.verdict"] == "passed"
    assert logged.data.params["recipe"] == TINY
