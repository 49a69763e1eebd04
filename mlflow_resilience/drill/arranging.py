"""How a cell is struck: by the job's own parameter ``fault``, by a striker that waits in the worker, or by both."""

from __future__ import annotations

from dataclasses import dataclass

from mlflow_resilience import fault_plan
from mlflow_resilience.drill.matrix import CONTROL, Cell, Outline

#: Of the striker's places, those that the plan of a job can name as well as a striker.
_BY_PLAN = ("first_trace", "mid_epoch")
_FIRST = {"resume": "kill", "recovery": "raise"}


@dataclass(frozen=True, kw_only=True)
class Arranged:
    """``fault`` is the job's parameter; ``striker`` the (kind, place) of the one in the worker, if any; ``strikes``
    how many are to be seen afterwards."""

    fault: str = "none"
    striker: tuple[str, str] | None = None
    strikes: int = 0


def arranged(cell: Cell, outline: Outline) -> Arranged:
    """What is to strike in the cell."""
    if cell.name == CONTROL:
        return Arranged()
    if cell.phase == "plan":
        return Arranged(fault=cell.kind, strikes=len(fault_plan.parse(cell.kind)))
    if _planned(cell):
        step = 1 if cell.phase == "first_trace" else outline.middle
        return Arranged(fault=f"{cell.kind}@{step}", strikes=1)
    first = _FIRST.get(cell.phase)
    fault = "none" if first is None else f"{first}@{outline.middle}"
    return Arranged(fault=fault, striker=(cell.kind, cell.phase), strikes=1 if first is None else 2)


def _planned(cell: Cell) -> bool:
    """Whether the plan strikes just there. In a first trace it strikes before the trace: a blow is to come in it."""
    if cell.kind not in fault_plan.KINDS:
        return False
    if cell.phase == "first_trace":
        return cell.kind not in ("kill", "segfault", "term")
    return cell.phase in _BY_PLAN or cell.kind == "disk_full"
