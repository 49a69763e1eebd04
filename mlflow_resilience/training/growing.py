"""Back to fewer pieces: what did not fit once may fit later, when others have left the memory."""

from __future__ import annotations

from dataclasses import replace

from mlflow_resilience.core.attempt import Settings

#: Steps without a fault after which half as many pieces are tried.
CLEAN_STEPS = 200


class Growth:
    """Counts the steps without a fault. The try is made once in a training's life, whichever process makes it: the
    settings, which go with the state, hold that it was."""

    def __init__(self, clean_steps: int = CLEAN_STEPS) -> None:
        self.clean_steps = clean_steps
        self._last_fault = 0

    def disturbed(self, step: int) -> None:
        """Training begins, or goes on after a fault, at the global step ``step``."""
        self._last_fault = step

    def due(self, settings: Settings, step: int) -> Settings | None:
        """The settings with fewer pieces, when it is time to try them."""
        if settings.accumulation == 1 or settings.grown_back or step - self._last_fault < self.clean_steps:
            return None
        return replace(settings, accumulation=settings.accumulation // 2, grown_back=True)
