"""A drill from its first cell to its last, several at a time if that is asked for; it goes on where it was."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from mlflow_resilience.drill.cell_run import Ground, outline_of, run_cell, undisturbed
from mlflow_resilience.drill.facts import Facts
from mlflow_resilience.drill.matrix import Cell
from mlflow_resilience.drill.processes import end_all
from mlflow_resilience.drill.results import Result, Results
from mlflow_resilience.drill.running import sign_of
from mlflow_resilience.drill.scorecard import Scorecard
from mlflow_resilience.drill.settings import Selection, Settings, folder_of
from mlflow_resilience.drill.store import Store
from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool.lease import Lease
from mlflow_resilience.spool.versions import versions

UNDISTURBED = "undisturbed"
T = TypeVar("T")


class View(Protocol):
    """Who is told how far a drill is."""

    def begins(self, total: int, done: int) -> None:
        """So many cells are asked for, and so many are done already."""

    def started(self, name: str) -> None:
        """A cell, or the undisturbed run, has been started."""

    def ended(self, result: Result) -> None:
        """A cell has been judged."""


@dataclass(frozen=True)
class Drilled:
    """The results, in the order of the matrix, and the undisturbed run that they are held against."""

    results: list[Result]
    undisturbed: Facts
    folder: Path

    def card(self, settings: Settings, selection: Selection) -> Scorecard:
        """The scorecard."""
        return Scorecard(
            recipe=settings.recipe,
            selection=str(selection),
            results=self.results,
            resume_key=self.undisturbed.resume_key,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=versions(),
            params={"epochs": str(settings.epochs), **settings.params},
        )


def drill(
    settings: Settings,
    selection: Selection,
    home: Path,
    view: View,
    *,
    jobs: int = 1,
    fresh: bool = False,
    environ: Mapping[str, str] | None = None,
    check: Sequence[str] = (),
) -> Drilled:
    """Run what is not done yet. ``check`` are resume keys, one of which the recipe has to have. Raises UsageError
    where there is nothing to drill; whatever interrupts it leaves no process behind."""
    folder = folder_of(home, settings)
    with _owned(folder):
        if fresh:
            _forget(folder)
        results = Results.read(folder / "results.jsonl")
        ground = Ground(
            settings=settings,
            folder=folder,
            store=Store(folder),
            environ=environ or {},
            asked=threading.Event(),
        )
        end_all(sign_of(ground.cells) + "/")  # of a drill that was killed
        with ThreadPoolExecutor(jobs) as pool:
            try:
                return _drill(pool, ground, results, selection, view, check)
            except BaseException:
                ground.asked.set()  # each cell's thread ends its processes, and the pool waits for it
                pool.shutdown(cancel_futures=True)
                raise


def _drill(
    pool: ThreadPoolExecutor,
    ground: Ground,
    results: Results,
    selection: Selection,
    view: View,
    check: Sequence[str],
) -> Drilled:
    control = results.undisturbed
    if control is None:
        view.started(UNDISTURBED)
        control = next(_each_ended([pool.submit(undisturbed, ground)]))
        results.set_undisturbed(control)
    if check and control.resume_key not in check:
        raise UsageError(f"the recipe has the resume key {control.resume_key[:12]}, and the model another one")
    wanted = selection.of(outline_of(control))
    todo = [cell for cell in wanted if cell.name not in results.cells]
    view.begins(len(wanted), len(wanted) - len(todo))

    def one(cell: Cell) -> Result:
        view.started(cell.name)
        return run_cell(ground, cell, control)

    for result in _each_ended([pool.submit(one, cell) for cell in todo]):
        results.add(result)
        view.ended(result)
    return Drilled([results.cells[cell.name] for cell in wanted], control, ground.folder)


def _each_ended(futures: list[Future[T]]) -> Iterator[T]:
    """What each gives, as they end; signals are heard meanwhile."""
    left = set(futures)
    while left:
        done, left = wait(left, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    lease = Lease.take(folder / "lease", "drill")
    if lease is None:
        raise UsageError(f"another drill of this recipe is running in {folder}")
    with lease:
        yield


def _forget(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != "lease":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
