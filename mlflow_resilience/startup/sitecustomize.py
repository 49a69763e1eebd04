"""Imported by every Python that `mlflow-resilience run` starts: once the script imports Keras, its `fit` is ours.

This folder, and not the package, is on the path for it. Another `sitecustomize`, which this one hides, still runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

BEGAN = time.time()  # this Python came to its first line

#: What is called in `mlflow_resilience.child` after the import of a module.
_AFTER = {"keras": "after_keras", "mlflow.tracking.fluent": "after_mlflow"}

#: Programs that are no script of the user's, by file or by module.
_TOOLS = ("mlflow", "mlflow-resilience", "mlflow_resilience", "joblib", "loky", "pip")


class _After(MetaPathFinder):
    """Lets modules be found as always (TensorFlow merely looks whether Keras is there), and acts after an import."""

    def __init__(self) -> None:
        self._looking = False

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in _AFTER or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            _act_after(spec.loader, _AFTER[fullname])
        return spec


def _act_after(loader: Loader, action: str) -> None:
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        try:
            child = importlib.import_module("mlflow_resilience.child")
        except ImportError as error:  # another Python than ours
            print(f"mlflow-resilience: fit is left as it is: {error}", file=sys.stderr)
            return
        getattr(child, action)()

    loader.exec_module = exec_module  # type: ignore[method-assign]


def _is_script() -> bool:
    """Whether this may be the script: no tool, and no helper that Python's own multiprocessing started."""
    words = sys.orig_argv[1:]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "-m":
            return following.split(".")[0] not in _TOOLS
        if word == "-c":
            return not following.startswith("from multiprocessing.")
        if not word.startswith("-"):
            return os.path.basename(word) not in _TOOLS
    return True


def _run_the_hidden_one() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    path, own = sys.path[:], sys.modules.pop("sitecustomize", None)
    sys.path[:] = [folder for folder in path if os.path.abspath(folder) != here]
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.path[:] = path
        if own is not None:
            sys.modules["sitecustomize"] = own


if os.environ.get("MLFLOW_RESILIENCE_JOB") and _is_script():
    sys.meta_path.insert(0, _After())
_run_the_hidden_one()
