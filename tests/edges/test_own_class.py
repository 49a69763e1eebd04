"""The guide to a failure class of one's own, as it is written: its file, its fit, its entry point."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from mlflow_resilience.spool.folder import jobs
from mlflow_resilience.spool.record import JobRecord
from tests.edges.main_job import ROOT, run

GUIDE = (ROOT / "docs" / "guides" / "own-failure-class.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the guide's file."""
    (tmp_path / "feature_store_busy.py").write_text(blocks("py")[0])
    return tmp_path


@pytest.mark.full
def test_a_fit_recovers_by_it_and_ends_as_if_nothing_had_been(place: Path) -> None:
    """The fault has its own class, the same step is tried again after a wait, and nothing of the result changes."""
    (place / "train.py").write_text(blocks("py")[1])
    ended = run(place, sys.executable, "train.py", PYTHONPATH=str(ROOT))
    assert ended.code == 0, ended.output
    record = JobRecord.read(jobs(place / ".mlflow_resilience")[0].journal)
    (fault,) = record.faults
    assert (fault.failure_class, fault.failure_domain, fault.in_place) == ("feature_store_busy", "infrastructure", True)
    assert fault.decision is not None and fault.decision["actions"] == ["Wait", "RetryStep"]
    assert record.semantic_changes == []


def test_installed_it_is_known_everywhere(place: Path) -> None:
    """By the guide's entry point, to a command that imports no TensorFlow."""
    declared = tomllib.loads(blocks("toml")[0])["project"]["entry-points"]["mlflow_resilience.recovery"]
    info = place / "feature_store-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: feature-store\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in declared.items()]
    (info / "entry_points.txt").write_text("\n".join(["[mlflow_resilience.recovery]", *lines]))
    (place / "log").write_text("StoreBusyError: compaction is under way\n")
    command = [sys.executable, "-m", "mlflow_resilience.cli", "explain", "--json", "log"]
    ended = run(place, *command, PYTHONPATH=f"{ROOT}:{place}")
    assert ended.code == 0, ended.output
    assert json.loads(ended.output)["failure_class"] == "feature_store_busy"


def test_every_action_is_in_the_guide() -> None:
    """The table of actions is that of the code."""
    from mlflow_resilience.core.action import Action

    assert all(f"`{action.__name__}()`" in GUIDE for action in Action.__subclasses__())
