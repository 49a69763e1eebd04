"""The command ``mlflow-resilience``. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

from mlflow_resilience.cli.main import main

__all__ = ["main"]
