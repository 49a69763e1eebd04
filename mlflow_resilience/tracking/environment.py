"""Where a job ran, as tags of its run."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version


def environment_tags() -> dict[str, str]:
    """What every job run says of where it ran."""
    tags = {"resilience.python": platform.python_version(), "resilience.host": platform.node()}
    for name in ("mlflow", "tensorflow", "keras", "mlflow-resilience"):
        try:
            tags[f"resilience.version.{name}"] = version(name)
        except PackageNotFoundError:
            continue
    return tags
