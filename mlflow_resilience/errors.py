"""All that we raise; each says what the caller can do next."""

from __future__ import annotations


class ResilienceError(Exception):
    """Base of all errors of this package."""


class UsageError(ResilienceError, ValueError):
    """The call, the recipe or a parameter is wrong: correct it and start again (exit code 2)."""


class RecoveryExhausted(ResilienceError, RuntimeError):
    """Recovery was tried and is spent; ``__cause__`` is the last fault's exception."""


class CheckpointError(ResilienceError, OSError):
    """A checkpoint is damaged, missing, or does not belong to this model."""


class TrackingError(ResilienceError, RuntimeError):
    """MLflow refused for good, or tracking was required and is out of reach."""


class NothingToExplain(ResilienceError, LookupError):
    """The text tells of no error: paste the traceback, or the end of the log in which training failed."""


class BadRecords(ResilienceError, ValueError):
    """More records are damaged than the policy allows to be left out: repair the data, or allow more."""


class Divergence(ResilienceError, ArithmeticError):
    """Training has left the finite numbers, or jumped far from its own history."""


class Preempted(KeyboardInterrupt):
    """The job was asked to end (``signal`` names how); its state is saved and it can be resumed (exit code 75)."""

    def __init__(self, signal: str) -> None:
        super().__init__(f"asked to end by {signal}")
        self.signal = signal
