"""When a loss has jumped out of its own history."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from statistics import median
from typing import Any, Self

#: Losses of single steps that must be known before one is judged: the first steps of a training overshoot.
ENOUGH = 16

#: So many of the newest losses tell the level that training is at.
_WINDOW = 64

#: A jump is so many times as far above the level as any loss before it was. Measured on drawn losses, 3000 trainings
#: of 1000 steps each: an exponential tail reaches 7.6; a log-normal one (sigma 1, as of batches of one record) passes
#: 10 in 16 of them and 20 in one. What clean trainings reach is in docs/architecture.md.
FACTOR = 20.0

#: The least distance from the level that counts as seen before. A converged model meets hard and mislabelled examples,
#: and what they cost does not depend on how small its losses have become.
_FLOOR = 1.0


class LossHistory:
    """The losses of the steps so far: the newest ones, and the highest ever.

    A loss jumps when it is ``FACTOR`` times as far above the median of the newest as the highest of all was, as the
    median's own size, and as 1. The bound is that far out because a false alarm would change the result of a clean
    training, and a spike that costs nothing needs no recovery.
    """

    def __init__(self) -> None:
        self._newest: deque[float] = deque(maxlen=_WINDOW)
        self._highest = -math.inf
        self._count = 0

    def add(self, loss: float) -> None:
        """The loss of one more step; one that is not finite is not part of a history."""
        if math.isfinite(loss):
            self._newest.append(loss)
            self._highest = max(self._highest, loss)
            self._count += 1

    def distance(self, loss: float) -> float:
        """How far ``loss`` is above the level, in units of what was seen before; 0.0 while too little was."""
        if self._count < ENOUGH or not math.isfinite(loss):
            return 0.0
        level = median(self._newest)
        return (loss - level) / max(self._highest - level, abs(level), _FLOOR)

    def jumps(self, loss: float) -> bool:
        """Whether ``loss`` is out of this history."""
        return self.distance(loss) > FACTOR

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        highest = self._highest if self._count else None
        return {"newest": list(self._newest), "highest": highest, "count": self._count}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; of nothing, an empty history."""
        history = cls()
        history._newest.extend(data.get("newest", ()))
        history._count = int(data.get("count", 0))
        if data.get("highest") is not None:
            history._highest = float(data["highest"])
        return history
