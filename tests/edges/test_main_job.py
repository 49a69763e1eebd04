"""The main job end to end: faults on purpose, and what a user then finds in MLflow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.edges.main_job import ROOT, Ended, run, train

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("recovered")
    return train(folder, "--epochs", "4", "--fault", "raise@60,oom@100,kill@140", timeout=390)


def test_the_job_run_says_that_it_recovered(recovered: Ended) -> None:
    assert recovered.code == 0, recovered.output
    (job,) = recovered.jobs()
    tags = job.data.tags
    assert job.info.status == "FINISHED"
    assert (tags["resilience.outcome"], tags["resilience.attempts"], tags["resilience.faults"]) == (
        "recovered",
        "4",
        "3",
    )
    assert tags["resilience.failure_classes"] == "unknown,host_oom,process_death"
    assert "2 pieces" in tags["resilience.semantic_changes"]
    assert "recovered" in tags["mlflow.note.content"]


def test_three_attempts_failed_each_with_its_fault_and_its_decision(recovered: Ended) -> None:
    (job,) = recovered.jobs()
    attempts = recovered.attempts(job)
    assert [run.info.status for run in attempts] == ["FAILED", "FAILED", "FAILED", "FINISHED"]
    tags = [run.data.tags for run in attempts[:3]]
    assert [each["resilience.exception_type"] for each in tags] == ["RuntimeError", "ResourceExhaustedError", "SIGKILL"]
    assert [each["resilience.failure_class"] for each in tags] == ["unknown", "host_oom", "process_death"]
    assert all(each["resilience.decision"] and each["resilience.decision_basis"] == "first" for each in tags)
    assert [run.data.params["accumulation"] for run in attempts] == ["1", "1", "2", "2"]


def test_each_key_and_step_of_the_curves_is_there_once(recovered: Ended) -> None:
    (job,) = recovered.jobs()
    for key, steps in {"batch/loss": list(range(1, 181)), "val_loss": [45, 90, 135, 180]}.items():
        history = recovered.client.get_metric_history(job.info.run_id, key)
        assert sorted(point.step for point in history) == steps


def test_the_artifacts_are_those_of_the_contract(recovered: Ended) -> None:
    (job,) = recovered.jobs()
    expected = {f"resilience/exceptions/attempt-{number:03d}.txt" for number in (1, 2, 3)} | {
        "resilience/attempts.json",
        "resilience/events.jsonl",
        "resilience/plots/memory.png",
        "resilience/plots/training_curves.png",
        "resilience/report.html",
        "resilience/worker.log",
    }
    assert expected <= recovered.artifacts(job)


def test_a_finished_job_logs_its_model(recovered: Ended) -> None:
    models = {model.name: model for model in recovered.client.search_logged_models(["0"])}
    assert models["model"].status == "READY"
    assert models["model"].tags["resilience.outcome"] == "recovered"
    assert models["model"].tags["resilience.step"] == "180"


def test_the_terminal_tells_each_fault_and_decision_in_a_line(recovered: Ended) -> None:
    told = [line for line in recovered.output.splitlines() if line.startswith("attempt ") and "because" in line]
    assert len(told) == 3
    assert "mlflow server" in recovered.output


@pytest.mark.full
def test_without_recovery_the_fault_is_logged_and_the_run_failed(tmp_path: Path) -> None:
    ended = train(tmp_path, "--epochs", "1", "--fault", "oom@20", "--recover", "false")
    assert ended.code == 1, ended.output
    (job,) = ended.jobs()
    (attempt,) = ended.attempts(job)
    assert (job.info.status, attempt.info.status) == ("FAILED", "FAILED")
    assert attempt.data.tags["resilience.exception_type"] == "ResourceExhaustedError"
    assert attempt.data.tags["resilience.decision_basis"] == "recovery_off"
    assert "resilience/exceptions/attempt-001.txt" in ended.artifacts(job)


def test_a_bug_stops_after_one_attempt_with_a_hint(tmp_path: Path) -> None:
    ended = train(tmp_path, "--epochs", "1", "--fault", "bug@10")
    assert ended.code == 1, ended.output
    (job,) = ended.jobs()
    (attempt,) = ended.attempts(job)
    assert attempt.data.tags["resilience.failure_class"] == "programming_error"
    assert "hint:" in ended.output
    assert attempt.data.tags["resilience.hint"] in job.data.tags["mlflow.note.content"]


@pytest.mark.full
def test_a_preempted_job_goes_on_with_the_same_command(tmp_path: Path) -> None:
    first = train(tmp_path, "--epochs", "2", "--fault", "term@60")
    assert first.code == 75, first.output
    assert first.jobs()[0].info.status == "KILLED"
    again = train(tmp_path, "--epochs", "2", "--fault", "term@60")
    assert again.code == 0, again.output
    newest, oldest = again.jobs()
    assert newest.data.tags["resilience.resumed_from_run"] == oldest.info.run_id
    assert newest.data.tags["resilience.resumed_from_step"] == "60"
    clean = train(tmp_path, "--epochs", "2", "--resume", "never")
    assert clean.code == 0, clean.output
    digests = [
        model.tags["resilience.digest"] for model in clean.client.search_logged_models(["0"]) if model.name == "model"
    ]
    assert len(digests) == 2 and len(set(digests)) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fault", "nonsense@x"], "fault=nonsense@x"),
        (["--epochs", "-1"], "epochs=-1"),
        (["--batch-size", "0"], "batch_size=0"),
        (["--learning-rate", "fast"], "learning_rate=fast"),
        (["--checkpoint-every", "often"], "often"),
        (["--colour", "blue"], "--colour"),
        (["nowhere.py"], "nowhere.py"),
    ],
)
def test_bad_input_gets_one_line_and_nothing_starts(tmp_path: Path, options: list[str], said: str) -> None:
    ended = train(tmp_path, *options)
    assert ended.code == 2
    assert said in ended.output
    assert len(ended.output.strip().splitlines()) == 1
    assert not (tmp_path / "mlflow.db").exists()


RECIPES = {
    "no_model.py": "def load_data(params):\n    return None, None\n",
    "uncompiled.py": (
        "import keras\n"
        "def load_data(params):\n    return (keras.ops.zeros((4, 2)), keras.ops.zeros((4,))), None\n"
        "def build_model(params):\n    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
    ),
}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_that_is_wrong_is_named_with_its_function(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(RECIPES[name])
    ended = train(tmp_path, name)
    assert ended.code == 2
    assert name in ended.output and "build_model" in ended.output


def test_a_store_that_cannot_be_opened_ends_with_one_line(tmp_path: Path) -> None:
    ended = train(tmp_path, "--epochs", "1", MLFLOW_TRACKING_URI="sqlite:////nowhere/at/all.db")
    assert ended.code == 2, ended.output
    assert "/nowhere/at" in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.full
def test_through_mlflow_run_the_run_that_it_opened_is_the_job(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    command = ["mlflow", "run", str(ROOT), "--env-manager", "local", "-P", "epochs=1", "-P", "fault=bug@10"]
    ended = run(tmp_path, sys.executable, "-m", *command, MLFLOW_TRACKING_URI=store)
    assert ended.code == 1, ended.output
    (job,) = ended.jobs()
    assert (job.info.status, job.data.tags["resilience.outcome"]) == ("FAILED", "failed")
    assert json.loads(json.dumps(job.data.params))["fault"] == "bug@10"
