"""The machine that something is measured on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_KEYS = ("cpu", "usable_cores", "python", "versions", "gpus")


def facts() -> dict[str, Any]:
    """What it is, what is installed, and how busy it was just now."""
    from mlflow_resilience import telemetry

    known = telemetry.environment()
    return {**{key: known[key] for key in _KEYS if key in known}, "load": round(os.getloadavg()[0], 2)}


def line(told: Mapping[str, Any]) -> str:
    """The same for the page."""
    versions = ", ".join(f"{name} {version}" for name, version in told.get("versions", {}).items())
    load = f"load {told.get('load')} at the start"
    return f"Machine: {told.get('cpu')}, {told.get('usable_cores')} cores, {load}; {versions}."
