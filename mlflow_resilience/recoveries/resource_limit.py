"""A limit on files, threads or processes is reached."""

from __future__ import annotations

import errno

from mlflow_resilience.core.action import NewProcess
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"file descriptors|\bemfile\b|\bulimit\b|rlimit|inotify",
    r"(?:can'?t|cannot|could not|unable|fail\w*)\b.{0,30}\b(?:start|creat\w*|launch|spawn)\b.*\bthreads?\b",
    r"thread creation|pthread_creat|system_error\b.*\n?.*resource temporarily",
    r"\bfork\b|process limit|max user processes|too many processes",
)
#: In the frames of an attempt to start a process or a thread.
_STARTING = words(r"os\.fork\(|fork_exec|popen_\w+\.py|start_new_thread")


def matches(fault: Fault) -> bool:
    """The system's error number, or words of its limits; a process or a thread that it would not start just now."""
    if fault.errno == errno.EAGAIN and _STARTING.search(fault.traceback):
        return True
    return fault.errno in (errno.EMFILE, errno.ENFILE) or fault.says(_WORDS)


RECOVERY = Recovery(
    failure_class="resource_limit",
    domain="infrastructure",
    matches=matches,
    ladder=(Rung((NewProcess(or_roll_back=True),)),),
    hint="A limit of the operating system is reached: ulimit -n (files), ulimit -u (threads and processes), or files "
    "that are opened and never closed.",
)
