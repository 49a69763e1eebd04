"""Recipes with one thing wrong each, and a healthy one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.edges.main_job import environ
from tests.training import children

FOUND = {
    "healthy": [],
    "label beyond": ["error labels"],
    "shape": ["error step", "error shapes"],
    "raises": ["error make"],
    "endless": ["error endless"],
    "order left open": ["warning reproducible"],
    "py dataset": [],
    "broken files": ["error read"],
    "callback": ["warning callbacks"],
}


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("recipes")
    arguments = {"names": list(FOUND)}
    assert children.run("tests.doctor.examined:recipes", folder, **arguments) == 0, children.output(folder)
    facts: dict[str, Any] = children.facts(folder)
    return facts


@pytest.mark.parametrize("name", FOUND)
def test_what_is_wrong_with_a_recipe_is_found_and_nothing_else(examined: dict[str, Any], name: str) -> None:
    """Notes aside: they say how large it all is."""
    found = [f"{severity} {check}" for severity, check, _ in examined[name] if severity != "note"]
    assert found == FOUND[name], examined[name]


def test_a_scan_names_every_record_that_cannot_be_read(tmp_path: Path) -> None:
    """By its file, and none of the others."""
    arguments = {"names": ["broken files", "py dataset"], "scan": True}
    assert children.run("tests.doctor.examined:recipes", tmp_path, **arguments) == 0, children.output(tmp_path)
    facts = children.facts(tmp_path)
    (text,) = [text for _, check, text in facts["broken files"] if check == "unreadable"]
    assert text.startswith("2 of the training records")
    assert "03.png" in text and "09.png" in text and "04.png" not in text
    assert [check for _, check, _ in facts["py dataset"] if check == "unreadable"] == []


@pytest.mark.full
def test_a_training_is_looked_at_as_its_batches_pass(tmp_path: Path) -> None:
    """What is wrong becomes an event; nothing is read ahead, so that a short training says nothing; no bit changes.

    What cannot be examined is a note, and never a fault of the training."""
    assert children.run("tests.doctor.examined:passing", tmp_path) == 0, children.output(tmp_path)
    assert children.facts(tmp_path) == {
        "healthy": [],
        "large": ["out_of_scale"],
        "short": [],
        "loss of one's own": [],
        "squared": [],
        "broken look": ["not_looked_at"],
    }


@pytest.mark.full
def test_the_memory_of_a_step_is_told_within_a_factor_of_two(tmp_path: Path) -> None:
    """Against what the process really took on this machine."""
    assert children.run("tests.doctor.examined:memory", tmp_path, 280.0) == 0, children.output(tmp_path)
    for found in children.facts(tmp_path):
        assert 0.5 < found["told_mb"] / found["measured_mb"] < 2.0, children.facts(tmp_path)


def doctor(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlflow_resilience.cli", "doctor", *options]
    store = f"sqlite:///{folder / 'mlflow.db'}"
    return subprocess.run(
        command, cwd=folder, env=environ(MLFLOW_TRACKING_URI=store), capture_output=True, text=True, timeout=120
    )


@pytest.mark.full
def test_the_command_says_it_in_words_and_by_its_exit_code(tmp_path: Path) -> None:
    """The default recipe has nothing wrong with it; a wrong option is told in one line."""
    well = doctor(tmp_path, "--json")
    assert well.returncode == 0, well.stderr
    told = json.loads(well.stdout)
    assert told["counts"]["error"] == told["counts"]["warning"] == 0
    short = doctor(tmp_path, "--batch-size", "none")
    assert short.returncode == 2
    assert len(short.stderr.strip().splitlines()) == 1


def test_a_recipe_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    """Without TensorFlow."""
    ended = doctor(tmp_path, str(tmp_path / "none.py"))
    assert ended.returncode == 2
    assert os.fsdecode(tmp_path) in ended.stderr and len(ended.stderr.strip().splitlines()) == 1
