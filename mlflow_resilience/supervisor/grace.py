"""Whether the grace period is long enough: from what this job's own saves and steps take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SAFETY = 2.0  # a machine that is being emptied is a busy one


_FEW = 3  # saves without a logged model: none will come


class Grace:
    """Follows the journal until it has seen a state saved and, where models are logged, handed over for logging."""

    def __init__(self, seconds: float) -> None:
        self._granted = seconds
        self._step: int | None = None
        self._saves = 0
        self._at = self._save = 0.0
        self._whole = self.said = False

    def note(self, entry: Mapping[str, Any]) -> None:
        """Take in a journal entry."""
        if self._whole or entry.get("kind") not in ("checkpoint", "model"):
            return
        if entry["kind"] == "checkpoint":
            parts = (entry.get("stall_ms"), entry.get("write_ms"))
            self._step, self._at = entry.get("step"), float(entry.get("time") or 0.0)
            self._save = sum(float(part or 0.0) for part in parts) / 1000
            self._saves += 1
            self._whole = self._saves >= _FEW
        elif entry.get("step") == self._step:
            self._save += max(0.0, float(entry.get("time") or 0.0) - self._at)
            self._whole = True

    def verdict(self, longest_step: float | None) -> dict[str, Any] | None:
        """What there is to say, once: an event's text and data."""
        if self.said or not self._whole:
            return None
        self.said = True
        needed = (longest_step or 0.0) + _SAFETY * self._save
        data = {"save_seconds": round(self._save, 3), "needed_seconds": round(needed, 3), "granted": self._granted}
        text = f"saving takes {self._save:.1f} s: the grace period of {self._granted:g} s"
        if needed <= self._granted:
            return {"text": f"{text} is enough", "data": data}
        need = f"about {needed:.0f} s are needed to save when the job is stopped, and --grace-seconds says so"
        return {"text": f"{text} may be too short; {need}", "data": data}
