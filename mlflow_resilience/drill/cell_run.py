"""One cell from its start to its verdict, and the undisturbed run that it is held against."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlflow_resilience.drill import facts, weights
from mlflow_resilience.drill.arranging import arranged
from mlflow_resilience.drill.facts import Facts
from mlflow_resilience.drill.matrix import Cell, Outline
from mlflow_resilience.drill.processes import end_all, eventually, left_running
from mlflow_resilience.drill.results import Result
from mlflow_resilience.drill.running import Command, Interrupted, run
from mlflow_resilience.drill.settings import Settings
from mlflow_resilience.drill.store import Store
from mlflow_resilience.drill.striker import RECIPE, Order, struck
from mlflow_resilience.drill.verdict import BAD, LOST_WORK, Expected, judge
from mlflow_resilience.errors import UsageError

_DELIVERED_SECONDS, _CLOSED_SECONDS = 75.0, 20.0  # a sender tries for a minute
_LEAST_START_SECONDS = 40.0


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What all runs of a drill share. ``asked`` is set when it is to end."""

    settings: Settings
    folder: Path
    store: Store
    environ: Mapping[str, str]
    asked: threading.Event

    @property
    def cells(self) -> Path:
        return self.folder / "cells"

    @property
    def reference(self) -> Path:
        """The tensors that the undisturbed run ended with."""
        return self.folder / "undisturbed.safetensors"


def undisturbed(ground: Ground) -> Facts:
    """Train the recipe as it is. Raises UsageError where that does not end well."""
    folder = _emptied(ground.cells / "undisturbed")
    found = _run(ground, folder, ground.settings.options(), recipe=ground.settings.reference, seconds=3600.0)
    if found.codes != (0,) or not found.digest:
        raise UsageError(f"{ground.settings.recipe}: undisturbed it ends with code {found.codes}: {found.tail}")
    if len(found.epoch_ends) < ground.settings.epochs:
        raise UsageError(f"{ground.settings.recipe}: undisturbed it has metrics at no more than {found.epoch_ends}")
    newest = facts.newest_checkpoint(folder / "home")
    if newest is not None:
        shutil.copy2(newest, ground.reference)
    shutil.rmtree(folder, ignore_errors=True)
    return found


def outline_of(found: Facts) -> Outline:
    """What the undisturbed run tells of the recipe."""
    return Outline(
        epoch_steps=found.epoch_ends[0],
        steps=found.epoch_ends[-1],
        step_seconds=found.step_seconds,
        validation=any(key.startswith("val_") for key in found.curves),
        checkpoints=found.checkpoints > 0,
        models=found.models > 0,
    )


def run_cell(ground: Ground, cell: Cell, control: Facts) -> Result:
    """Strike, wait for the end, and judge. A folder is kept where there is something to look for in it."""
    settings, outline = ground.settings, outline_of(control)
    folder, plan = _emptied(ground.cells / _slug(cell.name)), arranged(cell, outline)
    kind, place = plan.striker or ("", "")
    Order(settings.reference, kind, place, outline.epoch_steps // 2).write(folder)
    start = max(_LEAST_START_SECONDS, 5 * control.start_seconds)
    options = [*settings.options(), "--checkpoint-every", settings.cadence(outline)]
    options += ["--start-seconds", f"{start:.0f}", "--fault", plan.fault]
    limit = 240.0 + 10 * control.seconds + 3 * start
    found = _run(ground, folder, options, recipe=RECIPE, seconds=limit)
    after = facts.newest_checkpoint(folder / "home")
    apart = weights.distance(ground.reference, after) if found.digest not in ("", control.digest) else None
    expected = Expected(
        cell.kinds if plan.strikes else (), plan.strikes, settings.permitted_steps(outline, cell), cell.stop
    )
    verdict = judge(control, found, expected, apart)
    keeps = verdict.word in (*BAD, LOST_WORK)
    if not keeps:
        shutil.rmtree(folder, ignore_errors=True)
    return Result(
        cell=cell,
        verdict=verdict,
        seconds=found.seconds,
        codes=found.codes,
        classes=found.classes,
        struck=found.struck,
        changes=found.changes,
        lost_steps=sum(loss.steps for loss in found.losses),
        kept=str(folder) if keeps else "",
    )


def _run(ground: Ground, folder: Path, options: Sequence[str], *, recipe: str, seconds: float) -> Facts:
    name, experiment_id = ground.store.experiment(folder.name, folder / "artifacts")
    command = Command(
        options=[*options, "--experiment", name],
        folder=folder,
        tracking_uri=ground.store.uri,
        recipe=recipe,
        environ=ground.environ,
        seconds=seconds,
    )
    ran = run(command, ground.asked)
    left, running = _left(ground, command.sign, lambda: ground.store.running(experiment_id))
    told = facts.of_journals(command.home)
    told["struck"] = (*told["struck"], *struck(folder))
    return Facts(
        codes=ran.codes,
        late=ran.late,
        seconds=round(ran.seconds, 1),
        left=tuple(left),
        running=tuple(running),
        tail=facts.tail(command.output),
        **told,
    )


def _left(ground: Ground, sign: str, running: Callable[[], list[str]]) -> tuple[list[str], list[str]]:
    """Processes and open runs that are still there when all should be over; the processes are ended."""
    eventually(lambda: ground.asked.is_set() or not left_running(sign), _DELIVERED_SECONDS)
    left = left_running(sign)
    if left:
        end_all(sign)
    if ground.asked.is_set():
        raise Interrupted
    eventually(lambda: ground.asked.is_set() or not running(), _CLOSED_SECONDS)
    return left, running()


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower())[:80]
