"""Imported by every Python that `mlflow-resilience run` starts: once the script imports Keras, its `fit` is ours.

This folder, and not the package, is on the path for it. Another `sitecustomize`, which this one hides, still runs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _AfterKeras(MetaPathFinder):
    """Lets Keras be found as always (TensorFlow merely looks whether it is there), and acts when it is imported."""

    def __init__(self) -> None:
        self._looking = False

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "keras" or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec("keras")
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            self._act_after(spec.loader)
        return spec

    def _act_after(self, loader: Loader) -> None:
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            sys.meta_path.remove(self)
            import mlflow_resilience

            mlflow_resilience.autolog()

        loader.exec_module = exec_module  # type: ignore[method-assign]


def _run_the_hidden_one() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    path, own = sys.path[:], sys.modules.pop("sitecustomize", None)
    sys.path[:] = [folder for folder in path if os.path.abspath(folder) != here]
    try:
        with contextlib.suppress(ImportError):
            importlib.import_module("sitecustomize")
    finally:
        sys.path[:] = path
        if own is not None:
            sys.modules["sitecustomize"] = own


_run_the_hidden_one()
if os.environ.get("MLFLOW_RESILIENCE_JOB"):
    sys.meta_path.insert(0, _AfterKeras())
