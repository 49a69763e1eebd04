"""Trainings in processes of their own, forked from one that has TensorFlow imported and has run no op."""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_PRELOADED = ["tensorflow", "keras", "mlflow_resilience.fitting", "tests.training.pipelines"]
_SECONDS = 240  # on a quiet machine a tenth of it


def context() -> Any:
    """A forkserver's context; the server starts with the first child and imports once."""
    made = multiprocessing.get_context("forkserver")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    made.set_forkserver_preload(_PRELOADED)
    return made


_CONTEXT = context()


def run(target: str, folder: Path, /, seconds: float = _SECONDS, **arguments: Any) -> int:
    """Call ``module:function(folder, **arguments)`` in a child; returns its exit code, negative for a signal.

    What the function returns is in ``facts.json`` of the folder, what it printed in ``output.txt``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    child = _CONTEXT.Process(target=_main, args=(target, str(folder), arguments))
    child.start()
    child.join(seconds)
    if child.exitcode is None:
        child.kill()
        raise TimeoutError(f"{target} took over {seconds:.0f} s:\n{output(folder)}")
    code: int = child.exitcode
    if code == 1:
        raise AssertionError(f"{target} failed:\n{output(folder)}")
    return code


def facts(folder: Path) -> Any:
    return json.loads((folder / "facts.json").read_text())


def note(folder: Path, name: str) -> str:
    """What a child has written down under a name."""
    return (folder / name.replace(" ", "-")).read_text()


def state_at(checkpoint: Path) -> Any:
    """The plain part of the training state in a checkpoint."""
    return json.loads((checkpoint / "state.json").read_text())["state"]


def output(folder: Path) -> str:
    return (folder / "output.txt").read_text(errors="replace")[-6000:]


def _main(target: str, folder: str, arguments: dict[str, Any]) -> None:
    descriptor = os.open(Path(folder, "output.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    module, _, name = target.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    try:
        told = function(Path(folder), **arguments)
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    Path(folder, "facts.json").write_text(json.dumps(told))


def digest(arrays: list[Any]) -> str:
    total = hashlib.sha256()
    for array in arrays:
        total.update(array.tobytes())
    return total.hexdigest()
