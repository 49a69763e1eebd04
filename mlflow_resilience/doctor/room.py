"""Will it fit: memory for a step, disk for the checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlflow_resilience.doctor.finding import Finding

_GB = 1e9
_TIGHT = 0.8  # of what is free; the rest is fragmentation, workspaces and other processes


@dataclass(frozen=True, kw_only=True)
class Need:
    """Bytes of one training step: weights with their gradients, the optimiser's slots, and at the step's peak what lies
    between its operations for a batch. An estimate: workspaces of kernels are not in it."""

    weights: int
    slots: int
    step: int

    @property
    def total(self) -> int:
        return self.weights + self.slots + self.step

    def __str__(self) -> str:
        parts = f"weights {_size(self.weights)}, optimiser {_size(self.slots)}, a step {_size(self.step)}"
        return f"about {_size(self.total)} ({parts})"


def memory(need: Need, free: float, device: str, batch_size: int | None) -> Iterator[Finding]:
    """``free`` bytes are there on ``device``."""
    text = f"a training needs {need}; {_size(free)} are free on {device}"
    smaller = f"a smaller batch than {batch_size}" if batch_size and batch_size > 1 else "smaller inputs"
    remedy = f"{smaller}, a smaller model, or mixed precision; recovery would split batches, after an error"
    if need.total > free:
        kept = need.weights + need.slots
        alone = "; the weights and the optimiser alone do not fit" if kept > free else ""
        yield Finding(severity="error", check="memory", text=text + alone, remedy=remedy)
    elif need.total > _TIGHT * free:
        yield Finding(severity="warning", check="memory", text=text, remedy=remedy)
    else:
        yield Finding(severity="note", check="memory", text=text)


def disk(checkpoint_bytes: int, kept: int, free: int, folder: str) -> Iterator[Finding]:
    """``kept`` checkpoints and the one under way go into ``folder``, where ``free`` bytes are free."""
    needed = checkpoint_bytes * (kept + 1)
    text = f"{kept} checkpoints and one under way need {_size(needed)}; {_size(free)} are free in {folder}"
    remedy = "free some, keep fewer (`keep`), or set MLFLOW_RESILIENCE_HOME to a larger disk"
    if free < 2 * checkpoint_bytes:
        yield Finding(severity="error", check="disk", text=text, remedy=remedy)
    elif free < needed:
        yield Finding(severity="warning", check="disk", text=text, remedy=remedy)


def _size(count: float) -> str:
    return f"{count / _GB:.1f} GB" if count >= _GB else f"{count / 1e6:.1f} MB"
