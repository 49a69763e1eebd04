"""What ails a training: a symptom, since when, on what evidence, and what to do about it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")

#: Every symptom that a rule can find.
SYMPTOMS = (
    "exploding",
    "vanishing",
    "dead_units",
    "rate_high",
    "rate_low",
    "oscillation",
    "plateau",
    "saddle",
    "overfitting",
    "underfitting",
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``error``: training is void as it is. ``warning``: it will be worse than it could be. ``note``: worth knowing.

    ``epoch`` counts from 1, as Keras's progress does, ``step`` is the number of steps done then; None where the rule
    looks at the other of the two only. ``evidence`` has the numbers that were compared, ``layers`` whom it is about.
    """

    symptom: str
    severity: Severity
    epoch: int | None
    step: int | None
    text: str
    remedy: str
    evidence: dict[str, float] = field(default_factory=dict)
    layers: tuple[str, ...] = ()

    @property
    def since(self) -> str:
        """When it began, in words; empty where that is not known."""
        parts = [f"epoch {self.epoch}"] * (self.epoch is not None) + [f"step {self.step}"] * (self.step is not None)
        return ", ".join(parts)

    def __str__(self) -> str:
        since = f" (since {self.since})" if self.since else ""
        return f"{self.symptom}{since}: {self.text}; {self.remedy}"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**dataclasses.asdict(self), "layers": list(self.layers)}


def worst_first(found: list[Verdict]) -> list[Verdict]:
    """The same verdicts, errors before warnings before notes."""
    return sorted(found, key=lambda verdict: SEVERITIES.index(verdict.severity))
