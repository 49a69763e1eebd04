"""The worker ended without a word."""

from __future__ import annotations

from mlflow_resilience.core.action import NewProcess
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"segmentation fault|core dumped|bus error|floating point exception|access violation|0xc000",
    r"\bsig(?:kill|segv|abrt|bus|fpe|ill)\b",
    r"fatal python error|check failed:|process abort|terminate called",
    r"\bkernel\b.{0,60}\b(?:died|dead|restart\w*|crash\w*)",
    r"exit(?:ed)?(?: with)? (?:code|status)\W{0,12}\d+|\bkilled\b",
    r"died unexpectedly|brokenprocesspool|terminatedworker",
)


def matches(fault: Fault) -> bool:
    """A signal, an exit code, or words of a crash."""
    return fault.signal is not None or fault.exit_code not in (None, 0) or fault.says(_WORDS)


RECOVERY = Recovery(
    failure_class="process_death",
    domain="infrastructure",
    matches=matches,
    ladder=(Rung((NewProcess(),), times=2),),
    hint="The process died without an exception: its last output is in the log; dmesg may know more (out of memory, "
    "hardware). Always at one place, it is a crash in native code.",
)
