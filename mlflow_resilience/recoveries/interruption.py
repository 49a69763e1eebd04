"""Somebody, or a scheduler, asked the job to end."""

from __future__ import annotations

import signal

from mlflow_resilience.core.failure import Recovery
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
_EXITS = {128 + number for number in _SIGNALS} | {-number for number in _SIGNALS}
_NOT_RAISED = ("", "Warning", "KeyboardInterrupt", "process abort")
_WORDS = words(
    r"keyboard ?interrupt",
    r"\bsig(?:term|int|hup)\b|signal:? 15|\bterminated\b",
    r"preempt(?:ed|ion)",
    r"cancelled at|time limit",
    r"(?:spot|instance) (?:interruption|termination)",
)


def certain(fault: Fault) -> bool:
    """A signal that asks to end, however it became known."""
    if fault.silent_seconds is not None or fault.kernel_oom:
        return False
    return fault.is_a("KeyboardInterrupt", "Preempted") or fault.signal in _SIGNALS or fault.exit_code in _EXITS


def matches(fault: Fault) -> bool:
    """Words of schedulers, in what a log tells: an exception that merely speaks of a time limit is no such request."""
    told = fault.exception in _NOT_RAISED or fault.exception[0].islower()  # a logger's name, not a class's
    return told and fault.says(_WORDS)


RECOVERY = Recovery(
    failure_class="interruption",
    domain="infrastructure",
    certain=certain,
    matches=matches,
    leaves=True,
    hint="The job was asked to end and has saved: start the same command again to go on.",
)
