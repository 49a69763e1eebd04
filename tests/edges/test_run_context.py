"""Runs that a process of a job opens by itself say whose they are."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module

import pytest
from mlflow.tracking.context import registry

from mlflow_resilience.run_context import OwnerContext
from mlflow_resilience.spool.process import start_ticks
from tests.edges.main_job import ROOT, environ


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As MLflow registers it from the entry point, installed or not."""
    others = [each for each in registry._run_context_provider_registry if not isinstance(each, OwnerContext)]
    monkeypatch.setattr(registry._run_context_provider_registry, "_registry", [*others, OwnerContext()])


@pytest.mark.usefixtures("registered")
def test_a_run_of_a_jobs_process_has_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RESILIENCE_JOB", "/somewhere")
    tags = registry.resolve_tags()
    owner = {"pid": str(os.getpid()), "pid_start_ticks": str(start_ticks(os.getpid())), "host": os.uname().nodename}
    assert owner.items() <= {key.removeprefix("resilience."): value for key, value in tags.items()}.items()
    assert tags["resilience.version.mlflow"]


@pytest.mark.usefixtures("registered")
def test_anybody_elses_run_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_RESILIENCE_JOB", raising=False)
    monkeypatch.delitem(sys.modules, "mlflow_resilience.job", raising=False)
    assert not [key for key in registry.resolve_tags() if key.startswith("resilience.")]


def test_the_entry_point_is_a_leaf_that_mlflow_can_load_while_it_is_imported() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    module, _, name = points["mlflow.run_context_provider"]["resilience"].partition(":")
    assert getattr(import_module(module), name) is OwnerContext
    code = f"import {module}, sys; print(*[each for each in ('mlflow', 'tensorflow', 'keras') if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], env=environ(), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
