"""Which of a group's ends was the first, and what it was: the rest followed from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlflow_resilience.core.fault import Fault
from mlflow_resilience.ray.notices import BROKEN, Notices
from mlflow_resilience.recoveries import worker_lost
from mlflow_resilience.supervisor.death import Ended
from mlflow_resilience.supervisor.hang import Beat

_FINE = (0, 75)


@dataclass(frozen=True, kw_only=True)
class Reached:
    """How far the chief was, for a death that cannot say it."""

    step: int = 0
    epoch: int = 0
    phase: str = "start"
    begun: bool = False  # whether an attempt had begun


def root_cause(notices: Notices, size: int, reached: Reached, told: str = "") -> Fault:
    """The earliest fault of a group of ``size``. What Ray ``told`` counts where no rank has left a word.

    An error of a collective says that another rank is gone: it counts only where nothing else is known.
    """
    found = [*_deaths(notices, size, reached), *_told(notices, size)]
    genuine = [fault for fault in found if not _followed(fault)]
    if genuine or found:
        return min(genuine or found, key=lambda fault: fault.time)
    kind = told.partition(":")[0].strip() or "no error"  # its text guesses at causes, memory among them
    message = f"a worker of Ray's was lost, with all that it had started ({kind})"
    return replace(_ended(reached, code=1).fault(reached.step, reached.epoch, begun=reached.begun),
                   exception="RayWorkerLost", message=message)  # fmt: skip


def ended_badly(ends: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The ends that end the whole group."""
    return [end for end in ends if end["code"] not in _FINE]


def _told(notices: Notices, size: int) -> list[Fault]:
    faults = []
    for told in notices.all_ranks("fault", size):
        fault = Fault.from_dict(told["fault"])
        faults.append(replace(fault, message=f"{_who(told, size)}: {fault.message}", time=float(told["time"])))
    return faults


def _deaths(notices: Notices, size: int, reached: Reached) -> list[Fault]:
    faults = []
    for end in ended_badly(notices.all_ranks("end", size)):
        if end["code"] == BROKEN or end.get("by_us"):
            continue
        ended = _ended(reached, code=int(end["code"]), silent=end.get("silent_seconds"))
        fault = ended.fault(reached.step, reached.epoch, begun=reached.begun)
        message = f"{_who(end, size)}: {fault.message}"
        faults.append(replace(fault, message=message, time=float(end["time"])))
    return faults


def _ended(reached: Reached, *, code: int, silent: float | None = None) -> Ended:
    beat = Beat(0, reached.phase, reached.step, reached.epoch)
    return Ended(code=code, silent_seconds=silent, beat=beat)


def _followed(fault: Fault) -> bool:
    """Whether it only says that another rank is gone."""
    return (
        fault.exit_code is None and fault.signal is None and fault.silent_seconds is None and worker_lost.matches(fault)
    )


def _who(told: Mapping[str, Any], size: int) -> str:
    return f"rank {told['rank']} of {size} on {told['host']}"
