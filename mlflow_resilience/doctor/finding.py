"""What was found, how bad it is, and what to do about it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """``error``: training will fail, or its result be void. ``warning``: the result may be worse than it could be, or
    another one than expected. ``note``: worth knowing. ``text`` has the evidence in it."""

    severity: Severity
    check: str
    text: str
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return dataclasses.asdict(self)


def worst_first(findings: list[Finding]) -> list[Finding]:
    """The same findings, errors before warnings before notes."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))
