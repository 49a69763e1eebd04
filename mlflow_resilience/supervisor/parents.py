"""Who started us, and whether they still live."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mlflow_resilience.spool.process import is_alive, start_ticks
from mlflow_resilience.supervisor.kernel import parent

_SHELLS = ("bash", "sh", "dash", "zsh")

Parent = tuple[int, int]


def nearest() -> list[Parent]:
    """Our parent, and above it what stands behind a mere ``sh -c``: whoever dies among them was our caller."""
    found = []
    pid = os.getppid()
    while pid > 1 and (ticks := start_ticks(pid)) is not None:
        found.append((pid, ticks))
        if not _is_wrapper(_arguments(pid)):
            break
        pid = parent(pid) or 0
    return found


def mlflow_run() -> list[Parent]:
    """The same, when the caller is ``mlflow run``, which ends the run itself; otherwise nothing."""
    found = nearest()
    return found if found and _is_mlflow_run(_arguments(found[-1][0])) else []


def lost(parents: Iterable[Parent]) -> bool:
    """Whether one of them is gone."""
    return any(not is_alive(pid, ticks) for pid, ticks in parents)


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _is_wrapper(arguments: list[str]) -> bool:
    return len(arguments) > 2 and Path(arguments[0]).name in _SHELLS and arguments[1] == "-c"


def _is_mlflow_run(arguments: list[str]) -> bool:
    """``python [-m] mlflow run``, whatever way it was found."""
    names = [Path(argument).name for argument in arguments]
    return "run" in names and any(name in ("mlflow", "mlflow.exe") for name in names[: names.index("run")])
