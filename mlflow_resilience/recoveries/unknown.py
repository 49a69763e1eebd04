"""Nothing that is known."""

from __future__ import annotations

from mlflow_resilience.core.action import RollBack
from mlflow_resilience.core.failure import Recovery, Rung

RECOVERY = Recovery(
    failure_class="unknown",
    domain="unknown",
    matches=lambda fault: False,
    ladder=(Rung((RollBack(),)),),
    hint="Not a known kind of fault: the traceback tells where it came from. If it comes back, a recovery of your own "
    "can name it (Policy.with_recovery).",
)
