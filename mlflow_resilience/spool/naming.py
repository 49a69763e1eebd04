"""A run or a job called by its id, or by the beginning of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool.folder import JobFolder, jobs

FEWEST = 4  # characters: fewer are a slip, not an id
_SHOWN = 3


def only(name: str, ids: Iterable[str]) -> str | None:
    """The one of ``ids`` that is ``name`` or begins so; None where none does. Raises UsageError where several do, or
    where ``name`` is too short to be one."""
    if len(name) < FEWEST:
        raise UsageError(f"{name}: {FEWEST} characters or more of an id are needed")
    known = dict.fromkeys(ids)
    if name in known:
        return name
    found = [each for each in known if each.startswith(name)]
    if len(found) > 1:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UsageError(f"{name} is the beginning of several ids ({', '.join(found[:_SHOWN])}{more}): give more of it")
    return found[0] if found else None


def local(home: Path, name: str) -> JobFolder | None:
    """The job of this home with that id, run, or attempt's run. Raises UsageError where several begin so."""
    known = _known(home)
    found = only(name, known)
    return None if found is None else known[found]


def whole(home: Path, name: str) -> str | None:
    """The id of a job of this home, its run or an attempt's run, that ``name`` stands for, as :func:`local` has it."""
    return only(name, _known(home))


def _known(home: Path) -> dict[str, JobFolder]:
    folders = reversed(jobs(home))  # of several jobs in one run the newest
    return {each: folder for folder in folders for each in _ids(folder)}


def _ids(folder: JobFolder) -> list[str]:
    state = folder.read_sender_state()
    runs = (state.get("run_id"), *(state.get("runs") or {}).values())
    return [folder.job_id, *(str(run) for run in runs if run)]
