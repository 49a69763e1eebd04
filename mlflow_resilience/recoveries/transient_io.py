"""Storage or network failed in a way that passes."""

from __future__ import annotations

import errno

from mlflow_resilience.core.action import OlderCheckpoint, RetryStep, Wait
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_ERRNOS = {
    *(errno.EIO, errno.ESTALE, errno.EREMOTEIO, errno.EBADF, errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EPIPE),
    *(errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.ENOTCONN, errno.ESHUTDOWN),
    *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENODEV),
}
_WORDS = words(
    r"\b(?:http|response|status|server|error|code)\b\D{0,20}\b(?:408|429|5\d\d)\b",
    r"\b(?:429|50[0234])\b.*\b(?:error|client|server)\b",
    r"\b(?:429|50[0234]) (?:get|post|put|head|patch) |too ?many ?requests|slow ?down|rate ?limit|throttl",
    r"service ?unavailable|bad gateway|gateway time-?out|internal server",
    r"timed? ?-?out\b|timeout",
    r"connection (?:was )?(?:reset|refused|aborted|closed|broken|error)|remotedisconnected|closed connection",
    r"name (?:or service|resolution)|getaddrinfo|resolve host|nodename nor",
    r"max retries|retry attempts|retries exceeded",
    r"could(?:n't| not) connect|failed to connect|cannot connect|unreachable|endpoint is not",
    r"incomplete ?read|chunkedencoding|protocolerror|eof occurred|sslerror|ssleof|goaway",
    r"libcurl|\bcurl (?:error|timing|returned)",
    r"read less bytes|short read|stale (?:nfs )?file|i/o error|server .*\bnot responding",
)


def matches(fault: Fault) -> bool:
    """The system's error number, a status, or words of networks."""
    if fault.errno in _ERRNOS or fault.says(_WORDS):
        return True
    return fault.status in ("UNAVAILABLE", "DEADLINE_EXCEEDED")


RECOVERY = Recovery(
    failure_class="transient_io",
    domain="infrastructure",
    matches=matches,
    ladder=(
        Rung((Wait(), RetryStep()), times=4),
        Rung((OlderCheckpoint(),), times=2, when=lambda fault: fault.phase == "restore"),
        Rung((Wait(), RetryStep()), times=4),
    ),
    hint="Storage or network was out of reach for a while: is the file system mounted, the service up, a rate limit "
    "reached? A local copy of the data avoids it.",
)
