"""What a supervisor is to do, in values."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow_resilience.core.failure import Recovery
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.supervisor.hang import Limits

SENDER = (sys.executable, "-m", "mlflow_resilience.sender")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One job under supervision.

    ``command`` is the worker's; ``job`` the fields of the journal's ``job`` entry; ``environ`` what its environment,
    and the sender's, have besides ours. A stop is granted ``grace_seconds`` to save. At the end the sender is waited
    for ``sender_wait_seconds`` at most. The death of one of the processes ``parents`` (pid, start ticks) is a request
    to stop. ``spare_command``, where there is one, is of a process that is kept ready to be the next worker.
    ``opens_attempts`` is for commands that know nothing of attempts: each start is then one.
    """

    command: Sequence[str]
    home: Path
    job: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    recoveries: Sequence[Recovery] = ()
    limits: Limits = field(default_factory=Limits)
    grace_seconds: float = 30.0
    sender_command: Sequence[str] = SENDER
    sender_wait_seconds: float = 30.0
    require_tracking: bool = False
    tracking_wait_seconds: float = 120.0
    parents: Sequence[tuple[int, int]] = ()
    spare_command: Sequence[str] = ()
    opens_attempts: bool = False
