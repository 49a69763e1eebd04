"""A limit on files, threads or processes is reached."""

from __future__ import annotations

import errno

from mlflow_resilience.core.action import NewProcess
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"file descriptors|\bemfile\b|\bulimit\b|rlimit",
    r"(?:start|creat\w*|launch|spawn)\b.*\bthreads?\b|thread creation|pthread_create",
    r"\bfork\b|process limit|max user processes|too many processes",
)


def matches(fault: Fault) -> bool:
    """The system's error number, or words of its limits."""
    return fault.errno in (errno.EMFILE, errno.ENFILE) or fault.says(_WORDS)


RECOVERY = Recovery(
    failure_class="resource_limit",
    domain="infrastructure",
    matches=matches,
    ladder=(Rung((NewProcess(or_roll_back=True),)),),
    hint="A limit of the operating system is reached: ulimit -n (files), ulimit -u (threads and processes), or files "
    "that are opened and never closed.",
)
