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
    r"\bsig(?:term|int|hup)\b|signal:? 15",
    r"\bpreempt(?:ed|ing|ion)\b",
    r"\b(?:pod|vm|instance|node|job|container)s?\b.{0,60}\bevict(?:ed|ion)\b|\bevicted pod",
    r"srun: interrupt|cancelled at|time limit|run_?limit|wall ?-?time\b.*\b(?:exceed\w*|limit|reached)",
    r"(?:spot|instance) (?:interruption|termination)",
)
_TERMINATED = words(r"\bterminated\b")
#: What somebody else's request was not the reason of: the process ended by itself, or was too large.
_FOR_A_CAUSE = words(r"oom[ _-]?kill|out of memory|\blow on\b|pressure|exceed\w* .*\b(?:memory|storage)")
#: What happened to somebody else.
_ANOTHER = words(r"\b(?:connected|remote|other|another) (?:worker|task|process|host)")
_EXIT_CODE = words(r"exit code")


def certain(fault: Fault) -> bool:
    """A signal that asks to end, however it became known."""
    if fault.silent_seconds is not None or fault.kernel_oom:
        return False
    return fault.is_a("KeyboardInterrupt", "Preempted") or fault.signal in _SIGNALS or fault.exit_code in _EXITS


def matches(fault: Fault) -> bool:
    """Words of schedulers, in what a log tells: an exception that merely speaks of a time limit is no such request."""
    told = fault.exception in _NOT_RAISED or fault.exception[0].islower()  # a logger's name, not a class's
    if not told or _answered(fault) or fault.says(_FOR_A_CAUSE) or fault.says(_ANOTHER):
        return False
    return fault.says(_WORDS) or (fault.says(_TERMINATED) and not fault.says(_EXIT_CODE))


def _answered(fault: Fault) -> bool:
    """Whether this is what a remote call came back with, which tells of somebody else."""
    return fault.status is not None and fault.message.lstrip()[:4].isupper()


RECOVERY = Recovery(
    failure_class="interruption",
    domain="infrastructure",
    certain=certain,
    matches=matches,
    leaves=True,
    hint="The job was asked to end and has saved: start the same command again to go on.",
)
