"""Nothing moved for far longer than it ever took."""

from __future__ import annotations

from mlflow_resilience.core.action import NewProcess
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.text import words

_WORDS = words(
    r"\bhang\b|\bhung\b|\bhanging\b|deadlock(?! found)",
    r"no progress|\bstalled|stall detected|missing ranks",
    r"blocked for more than|timeout \(\d+:\d+:\d+\)",
    r"watchdog|may be stuck|termination timeout",
)

RECOVERY = Recovery(
    failure_class="hang",
    domain="infrastructure",
    certain=lambda fault: fault.silent_seconds is not None,
    matches=lambda fault: fault.says(_WORDS),
    condemns=lambda fault: True,
    ladder=(Rung((NewProcess(),), times=3),),
    hint="The worker stood still: the stacks in the log show where. Often a data worker that died, a lock, or a file "
    "system that does not answer.",
)
