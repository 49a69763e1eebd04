"""Where a job ran, as tags of its run."""

from __future__ import annotations

import platform

from mlflow_resilience.spool.versions import versions


def environment_tags() -> dict[str, str]:
    """What every job run says of where it ran."""
    return {"resilience.host": platform.node(), **versions()}
