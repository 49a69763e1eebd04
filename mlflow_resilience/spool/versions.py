"""What runs here, as tags of a run."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """Python's version and those of the packages that shape a result, as far as they are installed."""
    tags = {"resilience.python": platform.python_version()}
    for name in ("mlflow", "tensorflow", "keras", "mlflow-resilience"):
        try:
            tags[f"resilience.version.{name}"] = version(name)
        except PackageNotFoundError:
            continue
    return tags
