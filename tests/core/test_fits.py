"""The fits of a script, counted over all of its processes; and which processes are the script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlflow_resilience import fits
from mlflow_resilience.cli.run import _with_our_fit
from mlflow_resilience.job import Job
from mlflow_resilience.spool.folder import JobFolder


def job_in(home: Path) -> Job:
    folder = JobFolder.create(home)
    return Job(folder=folder, journal=folder.open_journal(), supervised=True)


def test_a_second_fit_goes_on_from_the_step_of_the_first(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    first = fits.take_turn(job, 0)
    job.journal.append("attempt_ended", attempt=1, status="FINISHED", step=40)
    second = fits.take_turn(job, 1)
    assert (first.index, first.first_step, first.begun) == (0, 0, False)
    assert (second.index, second.first_step, second.begun) == (1, 40, False)
    assert second.checkpoints(tmp_path) == tmp_path / "fit-001"
    assert first.checkpoints(tmp_path) == tmp_path


def test_a_script_that_is_started_again_finds_its_turns(tmp_path: Path) -> None:
    job = job_in(tmp_path)
    fits.take_turn(job, 0)
    fits.tell_completed(job, fits.Turn(), 40)
    fits.take_turn(job, 1)
    again = fits.take_turn(job, 1)
    assert (again.index, again.first_step, again.begun) == (1, 40, True)


def test_another_program_of_the_job_has_turns_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_in(tmp_path)
    fits.take_turn(job, 0)
    monkeypatch.setattr(sys, "orig_argv", ["python", "another.py"])
    assert fits.take_turn(job, 0).index == 1


SHOW = "import sys; print(any(type(each).__name__ == '_After' for each in sys.meta_path))"


@pytest.mark.parametrize(
    ("program", "is_script"),
    [
        (["-c", SHOW], True),
        (["train.py"], True),
        (["-u", "-W", "ignore", "train.py"], True),
        (["-m", "train"], True),
        (["mlflow", "run"], False),
        (["-c", f"from multiprocessing.spawn import spawn_main; {SHOW}", "--multiprocessing-fork"], False),
    ],
)
def test_which_processes_are_the_script(tmp_path: Path, program: list[str], is_script: bool) -> None:
    for name in ("train.py", "mlflow"):
        (tmp_path / name).write_text(SHOW)
    environ = {**os.environ, **_with_our_fit(), "MLFLOW_RESILIENCE_JOB": str(tmp_path)}
    done = subprocess.run([sys.executable, *program], env=environ, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == str(is_script), done.stderr
