"""What is decided about a fault, and the fixed word for why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mlflow_resilience.core.action import Action, Resumption
from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.fault import Fault

Verdict = Literal["continue", "stop", "leave"]

#: Every basis that a decision can have, and what it says.
BASES = {
    # going on
    "first": "it is the first fault of its class",
    "progress": "training has advanced since the last one",
    "strike": "training got no further after the last one",
    "no_new_process": "no supervisor is there to start a new process",  # also a stop's, where nothing else is sound
    "harmless": "training itself is not affected",
    # leaving
    "interrupted": "it was asked to end",
    # stopping
    "stop_class": "trying again cannot help",
    "recovery_off": "recovery is switched off",
    "class_excluded": "the policy does not recover from this class",
    "changes_result": "what is left would change the result, which the policy forbids",
    "no_checkpoint": "there is no checkpoint to go back to",
    "ladder_spent": "nothing that is left can help",
    "no_progress": "all that can be tried was tried, and training got no further",
    "budget_spent": "the class's retry budget is spent",
    "quarantine_spent": "too many records are bad",
    "ceiling": "the ceiling on failed attempts is reached",
    "lost_time": "faults have cost as much time as the policy allows",
}

#: Stops that tried nothing: the caller gets the original exception, untouched.
UNTRIED = frozenset({"stop_class", "recovery_off", "class_excluded"})


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Go on, and how; or stop; or leave, to be resumed. It always carries its basis, one of :data:`BASES`.

    ``opens_attempt`` is true when the attempt that faulted ends and another one begins: training leaves its loop,
    goes back to an earlier step, or goes on with other settings.
    """

    verdict: Verdict
    basis: str
    failure_class: str
    settings: Settings
    resumption: Resumption | None = None
    actions: tuple[Action, ...] = ()
    delay: float = 0.0
    rung: int | None = None
    opens_attempt: bool = False
    text: str = ""

    def __post_init__(self) -> None:
        if self.basis not in BASES:
            raise ValueError(f"{self.basis!r} is not a basis")

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values: the fields of a journal's ``decision``."""
        return {
            "verdict": self.verdict,
            "resumption": self.resumption,
            "actions": [type(action).__name__ for action in self.actions],
            "settings": self.settings.to_dict(),
            "delay": self.delay,
            "basis": self.basis,
            "failure_class": self.failure_class,
            "rung": self.rung,
            "opens_attempt": self.opens_attempt,
            "text": self.text,
        }


def where(fault: Fault) -> str:
    """A fault's place in words."""
    if fault.position is None:
        return "" if fault.phase == "unknown" else f" in {fault.phase}"
    position = fault.position
    if fault.phase in ("data", "step", "trace"):
        return f" in step {position.global_step + 1} (epoch {position.epoch + 1})"
    return f" after step {position.global_step} ({fault.phase})"


def in_words(fault: Fault, failure_class: str, done: str, basis: str, detail: str = "") -> str:
    """One line: what, where, what is done, why."""
    why = BASES[basis] + (f"; {detail}" if detail else "")
    return " ".join(f"{failure_class} ({fault.exception}){where(fault)}: {done}, because {why}".split())
