"""``mlflow run --backend resilience`` over a project of ten lines of shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow.exceptions import ExecutionException
from mlflow.tracking import MlflowClient

from mlflow_resilience.backend import _options
from tests.edges.main_job import ROOT
from tests.edges.main_job import run as run_job

MLPROJECT = """
name: shell
entry_points:
  main:
    parameters:
      word: {type: string, default: hello}
    command: "bash job.sh {word}"
"""
JOB = """
echo "$1 in $MLFLOW_RUN_ID"
if [ ! -e "$MARK" ]; then touch "$MARK"; kill -9 $$; fi
exit $CODE
"""


def run(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    (folder / "project").mkdir()
    (folder / "project" / "MLproject").write_text(MLPROJECT)
    (folder / "project" / "job.sh").write_text(JOB)
    environ = {
        **os.environ,
        "MARK": str(folder / "mark"),
        "CODE": str(code),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "MLFLOW_RESILIENCE_HOME": str(folder / "home"),
    }
    command = [sys.executable, "-m", "mlflow", "run", "project", "--backend", "resilience", "--env-manager", "local"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def statuses(folder: Path) -> dict[str, str]:
    runs = MlflowClient(f"sqlite:///{folder}/mlflow.db").search_runs(["0"])
    return {each.data.tags.get("resilience.attempt", "job"): each.info.status for each in runs}


def test_a_killed_command_is_started_again_in_the_same_run(tmp_path: Path) -> None:
    done = run(tmp_path, "-P", "word=hi")
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("hi in ")]
    assert len(told) == 2
    assert len(set(told)) == 1
    assert statuses(tmp_path) == {"job": "FINISHED", "1": "FAILED", "2": "FINISHED"}


def test_the_configuration_is_that_of_run() -> None:
    config = {"max_attempts": 3, "recover": False, "SYNCHRONOUS": False}
    assert _options(config) == ["--max-attempts", "3", "--no-recover"]
    assert _options({"recover": True}) == []
    with pytest.raises(ExecutionException, match="true or false is needed"):
        _options({"recover": "maybe"})


@pytest.mark.full
def test_without_recovery_a_command_that_dies_has_failed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"recover": False}))
    done = run(tmp_path, "--backend-config", str(tmp_path / "config.json"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert statuses(tmp_path) == {"job": "FAILED", "1": "FAILED"}


@pytest.mark.full
def test_a_recipe_that_is_not_to_be_recovered_is_not_started_again(tmp_path: Path) -> None:
    """Its own parameter reaches the supervisor, which is outside of it."""
    command = ["mlflow", "run", str(ROOT), "--backend", "resilience", "--env-manager", "local"]
    options = ["-P", "recover=false", "-P", "epochs=1", "-P", "fault=kill@10"]
    ended = run_job(
        tmp_path, sys.executable, "-m", *command, *options, MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/mlflow.db"
    )
    assert ended.code == 1, ended.output
    (job,) = ended.jobs()
    (attempt,) = ended.attempts(job)
    assert (job.info.status, attempt.info.status) == ("FAILED", "FAILED")
    assert attempt.data.tags["resilience.exception_type"] == "SIGKILL"
    assert attempt.data.tags["resilience.decision_basis"] == "recovery_off"


@pytest.mark.full
def test_a_preempted_command_ends_its_run_as_killed(tmp_path: Path) -> None:
    done = run(tmp_path, code=75)
    assert done.returncode == 1
    assert statuses(tmp_path)["job"] == "KILLED"
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_an_unknown_key_is_refused_before_there_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"max_attempt": 3}))
    done = run(tmp_path, "--backend-config", str(tmp_path / "config.json"))
    assert done.returncode == 1
    assert "unknown key max_attempt; known are max_attempts" in done.stderr
    assert "Traceback" not in done.stderr
    assert statuses(tmp_path) == {}
