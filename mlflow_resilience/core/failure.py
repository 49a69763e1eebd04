"""Which failure class a fault belongs to. The class decides what can be done about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from mlflow_resilience.core.action import Action, Resumption
from mlflow_resilience.core.evidence import links, own_links
from mlflow_resilience.core.fault import Fault

Domain = Literal["workload", "infrastructure", "unknown"]
Matcher = Callable[[Fault], bool]

#: The built-in classes; users may add their own.
FAILURE_CLASSES = (
    "device_oom",
    "host_oom",
    "device_fault",
    "bad_data",
    "input_exhausted",
    "divergence",
    "transient_io",
    "disk_full",
    "checkpoint_error",
    "worker_lost",
    "process_death",
    "interruption",
    "hang",
    "resource_limit",
    "programming_error",
    "environment",
    "tracking",
    "unknown",
)


def always(fault: Fault) -> bool:
    """Every fault."""
    return True


def never(fault: Fault) -> bool:
    """No fault."""
    return False


_SEVERITY: tuple[Resumption, ...] = ("in_place", "roll_back", "new_process")


@dataclass(frozen=True)
class Rung:
    """One level of a ladder: what is done together, how often before the next level's turn, and for which faults."""

    actions: tuple[Action, ...]
    times: int = 1
    when: Matcher = always

    @property
    def resumption(self) -> Resumption:
        """Where training goes on: the most severe that any of the actions needs."""
        return max((action.resumption for action in self.actions), key=_SEVERITY.index, default="in_place")


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """A failure class: how it is recognised, and its ladder of what is done about it, mildest first.

    ``matches`` is asked about one link of the cause chain at a time (as a fault with that link's exception and
    message), the root cause first. ``certain`` is asked before any ``matches``, about the whole fault: facts that
    settle it whatever the messages say. ``condemns`` tells faults after which this process must neither train nor
    save. ``detail`` adds what the fault itself tells to the words of a stop. A ladder's end is a stop, or for
    ``leaves`` the orderly exit of a job that can be resumed.
    """

    failure_class: str
    domain: Domain
    matches: Matcher = never
    certain: Matcher = never
    ladder: tuple[Rung, ...] = ()
    hint: str = ""
    leaves: bool = False
    harmless: bool = False  # training itself is not touched: never a reason to end it
    condemns: Matcher = never
    detail: Callable[[Fault], str] = lambda fault: ""


UNKNOWN = Recovery(failure_class="unknown", domain="unknown")


def anywhere(matches: Matcher) -> Matcher:
    """True when any link of a fault's cause chain matches, root cause or not."""
    return lambda fault: any(map(matches, own_links(fault)))


def asked_first(recovery: Recovery) -> Recovery:
    """A recovery of the user's own: any link of a cause chain will do, before the built-in ones are asked."""
    anyhow, certain = anywhere(recovery.matches), recovery.certain
    return replace(recovery, certain=lambda fault: certain(fault) or anyhow(fault))


def classify(fault: Fault, recoveries: Iterable[Recovery]) -> Recovery:
    """The recovery for a fault: what is certain first, then by the root cause, in order of precedence."""
    known = tuple(recoveries)
    for recovery in known:
        if recovery.certain(fault):
            return recovery
    for link in links(fault):
        for recovery in known:
            if recovery.matches(link):
                return recovery
    return next((recovery for recovery in known if recovery.failure_class == "unknown"), UNKNOWN)
