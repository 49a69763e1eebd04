"""``mlflow-resilience run`` over unchanged scripts, written as tutorials write them: a kill leaves no trace."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.spool.folder import jobs
from mlflow_resilience.spool.journal import read
from tests.edges.main_job import Ended, run

pytestmark = pytest.mark.timeout(300)

SCRIPTS = Path(__file__).parent / "scripts"
CLI = (sys.executable, "-m", "mlflow_resilience.cli", "run")


def end_of(ended: Ended, code: int = 0) -> str:
    """The line that the script ends with: digests, epochs, history."""
    assert ended.code == code, ended.output
    return next(line for line in ended.output.splitlines() if line.startswith("END"))


def environ(folder: Path) -> dict[str, str]:
    return {
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
        "MLFLOW_RESILIENCE_HOME": str(folder / "home"),
        "MLFLOW_RESILIENCE_SWEEP_SECONDS": "900",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def plain(folder: Path, script: str, *arguments: str) -> str:
    """How the script ends without us, in a folder of its own."""
    apart = folder / "plain"
    apart.mkdir()
    shutil.copy(SCRIPTS / script, apart)
    return end_of(run(apart, sys.executable, script, *arguments, **environ(apart)))


def resilient(folder: Path, script: str, *options: str, delivery: str = "0") -> Ended:
    """The same under supervision."""
    if not (folder / script).exists():
        shutil.copy(SCRIPTS / script, folder)
    command = [*CLI, "--delivery-seconds", delivery, *options, "--", sys.executable, script]
    return run(folder, *command, **environ(folder))


def entries(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [entry for entry, _ in read(jobs(folder / "home")[0].journal) if entry["kind"] == kind]


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    return [entry for entry in entries(folder, "event") if entry.get("name") == name]


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        pytest.param("sequential.py", "kill@37", marks=pytest.mark.full),
        ("functional.py", "kill@33"),
        pytest.param("subclassed.py", "kill@47", marks=pytest.mark.full),
        pytest.param("mirrored.py", "kill@33", marks=pytest.mark.full),
    ],
)
def test_a_kill_in_mid_epoch_leaves_no_trace(tmp_path: Path, script: str, fault: str) -> None:
    ended = resilient(tmp_path, script, "--fault", fault)
    assert end_of(ended) == plain(tmp_path, script)
    killed, resumed = entries(tmp_path, "attempt")
    assert killed["step"] == 0 < resumed["step"] < int(fault.partition("@")[2])


@pytest.mark.full
def test_of_two_fits_the_first_is_passed_by_and_no_run_is_left_open(tmp_path: Path) -> None:
    ended = resilient(tmp_path, "two_fits.py", "--fault", "kill@66", delivery="60")
    assert end_of(ended) == plain(tmp_path, "two_fits.py")
    assert [entry["data"]["fit"] for entry in events(tmp_path, "fit_completed")] == [0, 1]
    assert {entry["data"]["first_step"] for entry in events(tmp_path, "fit_begun")} == {0, 40}
    client = ended.client
    own = client.search_runs([client.get_experiment_by_name("the script's own").experiment_id])
    assert sorted(run.info.status for run in own) == ["FAILED", "FINISHED"]
    (job,) = ended.jobs()
    assert (job.info.status, job.data.tags["resilience.outcome"]) == ("FINISHED", "recovered")
    assert set(job.data.tags["resilience.script_runs"].split(",")) == {run.info.run_id for run in own}
    steps = [point.step for point in client.get_metric_history(job.info.run_id, "loss")]
    assert sorted(steps) == [20, 40, 60, 80]


@pytest.mark.full
def test_a_script_that_mlflow_logs_by_itself_is_the_same_and_its_runs_are_ended(tmp_path: Path) -> None:
    """`mlflow.tensorflow.autolog()` opens a run of its own around each `fit`, ours included."""
    pytest.importorskip("tensorboard", reason="MLflow's autologging of Keras needs tensorboard")
    ended = resilient(tmp_path, "autologged.py", "--fault", "kill@37", delivery="60")
    assert end_of(ended) == plain(tmp_path, "autologged.py")
    assert len(entries(tmp_path, "attempt")) == 2
    client = ended.client
    own = client.search_runs([client.get_experiment_by_name("the script's own").experiment_id])
    assert "RUNNING" not in {run.info.status for run in own}
    (job,) = ended.jobs()
    assert (job.info.status, job.data.tags["resilience.outcome"]) == ("FINISHED", "recovered")


@pytest.mark.full
def test_going_back_finds_data_that_was_looked_at_before_the_fit(tmp_path: Path) -> None:
    ended = resilient(tmp_path, "functional.py", "--fault", "raise@33")
    assert end_of(ended) == plain(tmp_path, "functional.py")
    assert len(entries(tmp_path, "attempt")) == 2


@pytest.mark.full
def test_the_same_command_goes_on_after_a_preemption_in_the_second_fit(tmp_path: Path) -> None:
    first = resilient(tmp_path, "two_fits.py", "--fault", "term@55", delivery="30")
    assert first.code == 75, first.output
    again = resilient(tmp_path, "two_fits.py", "--fault", "term@55", delivery="30")
    assert end_of(again) == plain(tmp_path, "two_fits.py")
    assert [entry["step"] for entry in entries(tmp_path, "attempt")] == [55]
    newest, oldest = again.jobs()
    assert newest.data.tags["resilience.resumed_from_run"] == oldest.info.run_id
    assert newest.data.tags["resilience.resumed_from_step"] == "55"
    steps = [point.step for point in again.client.get_metric_history(newest.info.run_id, "loss")]
    assert sorted(steps) == [20, 40, 60, 80]


@pytest.mark.full
def test_a_finished_command_is_a_new_job_and_never_asks_for_none(tmp_path: Path) -> None:
    first = end_of(resilient(tmp_path, "sequential.py", delivery="60"))
    again = resilient(tmp_path, "sequential.py", delivery="60")
    assert end_of(again) == first
    assert "has finished" in again.output
    assert [entry["step"] for entry in entries(tmp_path, "attempt")] == [0]


LINE = "import mlflow_resilience\nmlflow_resilience.autolog()\n"


@pytest.mark.full
def test_one_line_is_the_same_supervised_or_not(tmp_path: Path) -> None:
    source = (SCRIPTS / "sequential.py").read_text()
    (tmp_path / "sequential.py").write_text(source.replace("keras.utils.set", f"{LINE}keras.utils.set"))
    expected = plain(tmp_path, "sequential.py")
    alone = run(tmp_path, sys.executable, "sequential.py", **environ(tmp_path))
    assert end_of(alone) == expected
    assert len(entries(tmp_path, "attempt")) == 1
    assert end_of(resilient(tmp_path, "sequential.py", "--fault", "kill@37")) == expected
    assert len(entries(tmp_path, "attempt")) == 2


@pytest.mark.full
@pytest.mark.parametrize("way", ["-m", "-c", "shell"])
def test_modules_texts_and_shells_are_scripts_too(tmp_path: Path, way: str) -> None:
    expected = plain(tmp_path, "sequential.py")
    shutil.copy(SCRIPTS / "sequential.py", tmp_path)
    command = {
        "-m": [sys.executable, "-m", "sequential"],
        "-c": [sys.executable, "-c", "import runpy; runpy.run_path('sequential.py')"],
        "shell": ["sh", "-c", f"echo before; {sys.executable} sequential.py; code=$?; echo after; exit $code"],
    }[way]
    options = ["--delivery-seconds", "0", "--fault", "kill@37" if way != "shell" else "raise@37"]
    assert end_of(run(tmp_path, *CLI, *options, "--", *command, **environ(tmp_path))) == expected
    assert len(entries(tmp_path, "attempt")) == 2
