"""Jobs of two workers under real Ray, on the loopback address, struck in the middle of an epoch."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ray.ray_job import RECIPE, ROOT, RayJob, running

pytest.importorskip("ray", reason="the extra mlflow-resilience[ray] is not installed")
pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

STEPS, STRIKE = 60, 35  # of two epochs; within the second


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayJob]:
    """The job that nothing happens to."""
    with running(tmp_path_factory.mktemp("undisturbed")) as job:
        assert job.end() == 0
        yield job


def test_an_undisturbed_job_is_one_clean_attempt(undisturbed: RayJob) -> None:
    """Only the chief speaks: each step's checkpoint and the end are told once."""
    assert [entry["outcome"] for entry in undisturbed.entries("job_ended")] == ["clean"]
    assert [entry["status"] for entry in undisturbed.entries("attempt_ended")] == ["FINISHED"]
    steps = [entry["step"] for entry in undisturbed.entries("checkpoint")]
    assert steps == sorted(set(steps)) and steps[-1] == STEPS


@pytest.mark.parametrize("rank", [0, 1])
def test_the_death_of_a_rank_changes_nothing_in_the_result(rank: int, tmp_path: Path, undisturbed: RayJob) -> None:
    """One fault, that of the rank that was killed; the weights, slots and data position end as undisturbed."""
    with running(tmp_path) as job:
        job.strike(rank, signal.SIGKILL, step=STRIKE)
        assert job.end() == 0
        (fault,) = job.entries("fault")
        assert fault["fault"]["message"].startswith(f"rank {rank} of 2 on ")
        assert (fault["fault"]["signal"], fault["failure_class"]) == (signal.SIGKILL, "process_death")
        assert job.digest() == undisturbed.digest()


def test_a_halted_rank_is_noticed(tmp_path: Path, undisturbed: RayJob) -> None:
    """It does not end by itself, and nobody else can go on."""
    with running(tmp_path, MLFLOW_RESILIENCE_HALTED_SECONDS="5") as job:
        job.strike(1, signal.SIGSTOP, step=STRIKE)
        assert job.end() == 0
        (fault,) = job.entries("fault")
        assert fault["failure_class"] == "hang" and fault["fault"]["message"].startswith("rank 1 of 2 on ")
        assert job.digest() == undisturbed.digest()


def test_a_rank_that_is_asked_to_end_takes_the_others_along(tmp_path: Path, undisturbed: RayJob) -> None:
    """All leave at the same step, with their state saved; the same command goes on to the same result."""
    with running(tmp_path) as job:
        job.strike(1, signal.SIGTERM, step=STRIKE)
        assert job.end() == 75
        left = job.entries("attempt_ended")[-1]
        assert left["status"] == "KILLED"
        assert job.entries("checkpoint")[-1]["step"] == left["step"]
    with running(tmp_path) as job:
        assert job.end() == 0
        assert [entry["from_step"] for entry in job.entries("resumed")] == [left["step"]]
        assert job.digest() == undisturbed.digest()


def test_the_guides_snippet_runs(tmp_path: Path) -> None:
    """As it is written, beside a recipe of that name."""
    guide = (ROOT / "docs" / "guides" / "more-than-one-machine.md").read_text()
    (code,) = re.findall(r"^```py\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "recipe.py").write_text(RECIPE)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ, timeout=500)
    assert done.returncode == 0
