"""What a drill is asked for."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlflow_resilience import recipe
from mlflow_resilience.core.schedule import Schedule
from mlflow_resilience.drill.matrix import CONTROL, Cell, Outline, cells, chosen, plans, sample, why_not
from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool.versions import versions

LEAST_EPOCHS = 2  # one to go back to, and one to be struck in
HANG_SECONDS = 8.0
#: A write is spread over two seconds at most, and a busy machine may take as long again, and half of it.
SAVING_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which cells: all of the matrix, or those of ``only``; of these a ``quick`` sample; or ``plans`` drawn plans."""

    only: tuple[tuple[str, str], ...] = ()
    quick: bool = False
    plans: int = 0
    seed: int = 0

    def __str__(self) -> str:
        if self.plans:
            return f"{self.plans} plans of several faults, seed {self.seed}"
        named = ", ".join(f"{kind}{'@' + phase if phase else ''}" for kind, phase in self.only) or "the whole matrix"
        return f"a sample of {named}, seed {self.seed}" if self.quick else named

    def of(self, outline: Outline) -> list[Cell]:
        """The cells, the control first where the drill is more than a few named ones. Raises UsageError."""
        control = Cell(*CONTROL.split("@"))
        if self.plans:
            return [control, *plans(outline, self.plans, self.seed)]
        found = chosen(cells(outline), self.only)
        if not found:
            reasons = [why_not(kind, phase, outline) for kind, phase in self.only if kind and phase]
            raise UsageError(next(filter(None, reasons), "this recipe's training has no such phase"))
        found = sample(found, self.seed) if self.quick else found
        return found if self.only else [control, *found]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The recipe and how it is trained in each cell. ``params`` are given to `train` as they are; ``every`` is the
    cadence of checkpoints, by default a third of an epoch."""

    recipe: str
    epochs: int = 3
    params: Mapping[str, str] = field(default_factory=dict)
    every: str = ""
    hang_seconds: float = HANG_SECONDS

    def __post_init__(self) -> None:
        if self.epochs < LEAST_EPOCHS:
            raise UsageError(f"epochs={self.epochs}: {LEAST_EPOCHS} or more are needed, one of them to go back to")
        if self.every:
            Schedule.parse(self.every)

    @property
    def reference(self) -> str:
        """The recipe as another working directory finds it."""
        path = recipe.check(self.recipe)
        return str(path) if self.recipe.endswith(".py") or "/" in self.recipe else self.recipe

    @property
    def key(self) -> str:
        """A digest of what the results depend on: recipe, settings and versions."""
        source = hashlib.sha256(recipe.check(self.recipe).read_bytes()).hexdigest()
        parts = [self.reference, source, self.epochs, dict(self.params), self.every, self.hang_seconds, versions()]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]

    def cadence(self, outline: Outline) -> str:
        """As `train` takes it."""
        return self.every or f"{max(1, outline.epoch_steps // 3)}steps"

    def permitted_steps(self, outline: Outline, cell: Cell) -> int:
        """Steps that one loss may cost: two intervals, as the newest checkpoint may still be being written; an epoch
        at the least, and what is trained while a save is made or, where it hangs, until that is found out. Of a
        cadence in time, any number."""
        schedule = Schedule.parse(self.cadence(outline))
        unit = {"steps": 1, "epochs": outline.epoch_steps}.get(schedule.unit)
        if unit is None:
            return outline.steps
        hangs = cell.kind == "hang" and cell.phase in ("checkpoint_write", "publishing")
        seconds = SAVING_SECONDS + (2 * self.hang_seconds if hangs else 0.0)
        meanwhile = math.ceil(seconds / max(outline.step_seconds, 1e-6))
        return max(outline.epoch_steps, 2 * int(schedule.count) * unit, min(meanwhile, outline.steps))

    def options(self) -> list[str]:
        """Of `train`, for every run of the drill."""
        given = [part for name, text in self.params.items() for part in (f"--{name.replace('_', '-')}", text)]
        seconds = ["--hang-seconds", f"{self.hang_seconds:g}", "--delivery-seconds", "60"]
        return ["--epochs", str(self.epochs), *given, *seconds]


def folder_of(home: Path, settings: Settings) -> Path:
    """Where such a drill keeps its results."""
    reference = settings.reference
    name = Path(reference).stem if reference.endswith(".py") else reference.rpartition(".")[2]
    return home / "drill" / f"{name}-{settings.key}"
