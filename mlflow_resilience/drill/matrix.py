"""Which cells a drill has: a fault kind at a phase of training, or a drawn plan of several faults."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlflow_resilience import fault_plan
from mlflow_resilience.errors import UsageError

PHASES = (
    *("first_trace", "mid_epoch", "validation", "checkpoint_write", "publishing", "epoch_end"),
    *("resume", "recovery"),  # of a process that was killed; from another fault
)
#: On the process, whatever it does just then. The last three: halted (SIGSTOP), its whole process group killed, and
#: the supervisor with it.
BLOWS = ("kill", "segfault", "term", "hang", "stop", "group", "everything")
#: Exceptions that any code can raise. Of those with one ladder, one stands for all outside of a step.
RAISED = ("raise", "bug", "host_oom", "transient_io", "device_fault")
#: What strikes a step of training, and is judged there.
IN_STEP = tuple(kind for kind in fault_plan.KINDS if kind not in (*BLOWS, "disk_full", "torn_checkpoint"))

_AT: dict[str, tuple[str, ...]] = {
    "first_trace": (*BLOWS, *(kind for kind in IN_STEP if kind not in ("spike", "slow_data", "tracking_down"))),
    "mid_epoch": (*BLOWS, *IN_STEP, "torn_checkpoint"),
    "validation": (*BLOWS, *RAISED),
    "checkpoint_write": (*BLOWS, *RAISED, "disk_full"),
    "publishing": (*BLOWS, *RAISED),
    "epoch_end": (*BLOWS, *RAISED),
    "resume": (*BLOWS, *RAISED, "torn_checkpoint"),
    "recovery": (*BLOWS, *RAISED, "torn_checkpoint"),
}
KINDS = tuple(dict.fromkeys(kind for kinds in _AT.values() for kind in kinds))
#: What the job is run without, to see that it repeats itself at all.
CONTROL = "nothing@undisturbed"
#: Recovery has nothing to try: the job is to stop. So does one with two unknown errors without a step between them.
STOPS = frozenset({"bug", "environment"})
_TWICE_UNKNOWN = ("raise", "recovery")
_UNHEARD = {  # why the others of a kind are no cells
    "spike": "a jump is told from the losses of sixteen steps before it",
    "disk_full": "it meets the next write of a checkpoint, whenever it is arranged",
    "torn_checkpoint": "a checkpoint is damaged while it lies on disk, and met where one is read",
    "slow_data": "it is told from the waits before it",
    "tracking_down": "training does not notice it in any phase",
    **dict.fromkeys(("nan", "corrupt_record", "input_exhausted"), "it is in a batch that is trained on"),
}
_LEAST_FOR_SPIKE = 20  # steps before it


@dataclass(frozen=True)
class Cell:
    """One kind at one phase; or, of the phase ``plan``, faults as the parameter ``fault`` has them."""

    kind: str
    phase: str

    @property
    def name(self) -> str:
        return f"{self.kind}@{self.phase}" if self.phase != "plan" else self.kind

    @property
    def kinds(self) -> tuple[str, ...]:
        """All that strike, a fault that comes first included."""
        if self.phase == "plan":
            return tuple(fault.kind for fault in fault_plan.parse(self.kind))
        first = {"resume": ("kill",), "recovery": ("raise",)}.get(self.phase, ())
        return (*first, self.kind)

    @property
    def stop(self) -> str:
        """The basis on which the job is to stop for good; empty where it is to go on."""
        if STOPS.intersection(self.kinds):
            return "stop_class"
        return "no_progress" if (self.kind, self.phase) == _TWICE_UNKNOWN else ""


@dataclass(frozen=True, kw_only=True)
class Outline:
    """What an undisturbed run tells of a recipe: the steps of its first epoch and of all, how long one takes, and what
    phases it has."""

    epoch_steps: int
    steps: int
    step_seconds: float = 1.0
    validation: bool = True
    checkpoints: bool = True
    models: bool = True

    @property
    def middle(self) -> int:
        """A global step in the middle of the second epoch, from 1."""
        return self.epoch_steps + max(1, self.epoch_steps // 2)


def why_not(kind: str, phase: str, outline: Outline | None = None) -> str | None:
    """Why there is no such cell; None when there is one."""
    if kind not in KINDS:
        return f"there is no fault {kind!r} to drill; known are {', '.join(KINDS)}"
    if phase not in PHASES:
        return f"there is no phase {phase!r}; known are {', '.join(PHASES)}"
    if kind not in _AT[phase]:
        return _UNHEARD.get(kind, f"outside of a step it is met as {', '.join(RAISED)} are")
    if outline is None:
        return None
    lacks = {
        "validation": not outline.validation,
        "checkpoint_write": not outline.checkpoints,
        "publishing": not outline.models,
    }
    if lacks.get(phase):
        return f"this recipe's training has no {phase.replace('_', ' ')}"
    if kind == "spike" and outline.middle <= _LEAST_FOR_SPIKE:
        return _UNHEARD["spike"]
    return None


def cells(outline: Outline) -> list[Cell]:
    """All of the matrix, phase by phase."""
    return [Cell(kind, phase) for phase in PHASES for kind in _AT[phase] if why_not(kind, phase, outline) is None]


def read_only(text: str) -> list[tuple[str, str]]:
    """``KIND``, ``KIND@PHASE`` or ``@PHASE``, with commas between them: pairs, empty where it is any. Raises
    UsageError."""
    pairs = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        kind, _, phase = part.partition("@")
        some = [(k, p) for k in ([kind] if kind else KINDS) for p in ([phase] if phase else PHASES)]
        reasons = [why_not(*each) for each in some]
        if all(reasons):
            raise UsageError(f"only={part}: {reasons[0]}")
        pairs.append((kind, phase))
    return pairs


def chosen(found: Iterable[Cell], only: Sequence[tuple[str, str]]) -> list[Cell]:
    """The cells that one of the pairs names; all where there are none."""
    return [
        cell
        for cell in found
        if not only or any(kind in ("", cell.kind) and phase in ("", cell.phase) for kind, phase in only)
    ]


def sample(found: Sequence[Cell], seed: int, each: int = 1) -> list[Cell]:
    """So many cells of every phase, the same ones for the same seed."""
    drawn = random.Random(f"sample {seed}")
    picked: set[Cell] = set()
    for phase in PHASES:
        there = [cell for cell in found if cell.phase == phase]
        picked.update(drawn.sample(there, min(each, len(there))))
    return [cell for cell in found if cell in picked]


def plans(outline: Outline, number: int, seed: int) -> list[Cell]:
    """So many plans of two to four faults that a job goes on from, each of another kind, at steps of their own. The
    first plans of a seed are the same however many are drawn."""
    return [Cell(_plan(outline, random.Random(f"plan {seed} {index}")), "plan") for index in range(number)]


def _plan(outline: Outline, drawn: random.Random) -> str:
    kinds = [kind for kind in fault_plan.KINDS if kind not in STOPS and (kind != "spike" or outline.steps > 30)]
    count = min(drawn.randint(2, 4), outline.steps)
    struck = drawn.sample(kinds, count)
    steps = drawn.sample(range(1, outline.steps + 1), count)
    late = {"spike": _LEAST_FOR_SPIKE, "torn_checkpoint": outline.epoch_steps, "disk_full": 0}
    faults: dict[int, str] = {}
    for kind, step in zip(struck, steps, strict=True):
        first = late.get(kind, 0) + 1
        last = outline.epoch_steps if kind == "disk_full" else outline.steps  # a write is to come after it
        at = step if first <= step <= last else drawn.randint(min(first, last), last)
        faults.setdefault(at, kind)
    return ",".join(f"{kind}@{step}" for step, kind in sorted(faults.items()))
