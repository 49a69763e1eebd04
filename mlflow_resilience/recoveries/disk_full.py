"""There is no room to write, told by whatever layer noticed."""

from __future__ import annotations

import errno

from mlflow_resilience.core.action import FreeDisk, RetryStep, Wait
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"no space left|(?:not enough|insufficient|out of) (?:free )?(?:disk )?space",
    r"dis[ck] (?:is )?full|full dis[ck]",
    r"(?:dis[ck]|storage|user|block|file ?system) quota|quota.*\b(?:dis[ck]|storage|bytes)",
    r"enospc|edquot|error_disk_full|storage ?full|low on (?:resource: )?(?:ephemeral|disk|storage)|disk ?pressure",
)
#: What the system reports by the same number.
_NO_DISK = words(r"inotify|semaphore")


def matches(fault: Fault) -> bool:
    """The system's error number, or words for it."""
    if fault.says(_NO_DISK):
        return False
    return fault.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or fault.says(_WORDS)


RECOVERY = Recovery(
    failure_class="disk_full",
    domain="infrastructure",
    matches=matches,
    ladder=(
        Rung((FreeDisk(), RetryStep())),
        Rung((FreeDisk(), Wait(), RetryStep()), times=6),
    ),
    hint="The disk or the quota is full: free some room, keep fewer checkpoints, or put MLFLOW_RESILIENCE_HOME on "
    "another disk.",
)
