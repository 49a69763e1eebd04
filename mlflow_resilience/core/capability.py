"""What is possible where a fault is judged, and so where training can go on."""

from __future__ import annotations

from dataclasses import dataclass

from mlflow_resilience.core.action import NewProcess, Resumption
from mlflow_resilience.core.failure import Rung
from mlflow_resilience.core.fault import Fault


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """``in_place``: the failed step's own boundary can be restored. ``new_process``: somebody will start one.
    ``checkpoint``: there is one, or the start of training, to go back to. ``exact_split``: micro-batches leave the
    result as it would be (no batch normalisation, no dropout).
    """

    in_place: bool = False
    new_process: bool = False
    checkpoint: bool = True
    exact_split: bool = True


@dataclass(frozen=True)
class Way:
    """Where training can go on for a rung; or, without a ``resumption``, the ``basis`` for why nowhere."""

    resumption: Resumption | None = None
    basis: str | None = None


def way(rung: Rung, fault: Fault, can: Capabilities, *, condemned: bool) -> Way:
    """The mildest that the rung asks for and that is possible and sound; a harsher one where it is not."""
    usable = not (condemned or fault.process_gone)
    if rung.resumption == "in_place" and usable and can.in_place:
        return Way("in_place")
    if rung.resumption != "new_process" and usable and can.checkpoint:
        return Way("roll_back")
    if rung.resumption != "new_process" and usable:
        return Way(basis="no_checkpoint")
    if can.new_process:
        return Way("new_process")
    instead = any(isinstance(action, NewProcess) and action.or_roll_back for action in rung.actions)
    if usable and can.checkpoint and instead:
        return Way("roll_back", "no_new_process")
    return Way(basis="no_new_process")
