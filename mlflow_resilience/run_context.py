"""What MLflow puts on the runs that a process of a job opens by itself: who owns them, and where.

MLflow loads this while it is being imported: nothing here may import it.
"""

from __future__ import annotations

import os
import sys

from mlflow_resilience.spool.process import identity
from mlflow_resilience.spool.versions import versions


class OwnerContext:
    """A run context provider, for processes that take part in a job or have recovery switched on."""

    def in_context(self) -> bool:
        """Whether this process is one of them."""
        return "MLFLOW_RESILIENCE_JOB" in os.environ or "mlflow_resilience.job" in sys.modules

    def tags(self) -> dict[str, str]:
        """The tags of a run that is opened now."""
        who = identity("script")
        named = {"pid": "pid", "host": "host", "start_ticks": "pid_start_ticks"}
        owner = {f"resilience.{tag}": str(who[key]) for key, tag in named.items() if who[key] is not None}
        return {**owner, **versions()}
