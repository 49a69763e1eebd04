"""Two tiers: everything marked ``full`` runs only with ``--all``."""

from __future__ import annotations

import os
import random

import pytest

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
#: Which part of every matrix the fast tier looks at; the processes of `pytest -n` inherit the one that was drawn.
os.environ.setdefault("MATRIX_SEED", str(random.SystemRandom().randrange(1, 10**6)))


def pytest_report_header() -> str:
    return f"sample of every matrix: MATRIX_SEED={os.environ['MATRIX_SEED']}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked `full` too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    skip = pytest.mark.skip(reason="runs with --all")
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(skip)
