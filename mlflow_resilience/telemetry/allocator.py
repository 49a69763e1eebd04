"""What TensorFlow's own GPU allocator holds, without importing or starting TensorFlow."""

from __future__ import annotations

import sys
from typing import Any

from mlflow_resilience.telemetry.units import megabytes


def allocator_memory() -> dict[str, float]:
    """``tf_current_mb`` and ``tf_peak_mb``, summed over the process's GPUs; empty where there is nothing to say.

    TensorFlow's runtime starts on its first use and takes the GPU; asking must not be that use, so the state of its
    context is looked at first.
    """
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    if context is None or not getattr(context, "_initialized", False):
        return {}
    try:
        names = [device.name for device in context.list_logical_devices("GPU")]
        figures: list[dict[str, Any]] = [context.get_memory_info(name.removeprefix("/device:")) for name in names]
    except Exception:  # TensorFlow's internals; a figure less is no reason to fail
        return {}
    if not figures:
        return {}
    return {f"tf_{key}_mb": megabytes(sum(each[key] for each in figures)) for key in ("current", "peak")}
