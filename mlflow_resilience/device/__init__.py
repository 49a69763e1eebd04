"""Settings of the machine that a training runs on: memory, threads, precision, compilation, determinism.

Importing this package and reading what is wanted needs no TensorFlow; :func:`configure` loads it.
"""

from __future__ import annotations

import warnings
from typing import Any

from mlflow_resilience.device.settings import DeviceSettings, Told

__all__ = ["DeviceSettings", "Told", "configure", "suit"]


def configure(device: str = "none", precision: str = "none") -> list[Told]:
    """Put settings in force, before TensorFlow has computed anything: ``memory_growth``, ``memory_limit:4GB``,
    ``threads:4``, ``deterministic``, ``xla``, separated by commas; ``precision`` is ``mixed_bfloat16`` or
    ``mixed_float16``.

    Returns what was done, and what could not be: too late, or nothing that it would apply to. Either is a line, and no
    exception; what could not be done is a warning as well. ``xla`` belongs to a model: :func:`suit`. Raises
    UsageError for what cannot be read.
    """
    from mlflow_resilience.device import applying

    return _warned(applying.apply(DeviceSettings.parse(device, precision)))


def suit(model: Any, device: str = "none", precision: str = "none") -> list[Told]:
    """The same texts put to a compiled model: ``xla`` compiles its step; of ``precision`` it is said how the model
    bears it. Returns and raises as :func:`configure` does."""
    from mlflow_resilience.device import applying

    return _warned(applying.suit(model, DeviceSettings.parse(device, precision)))


def _warned(told: list[Told]) -> list[Told]:
    for each in told:
        if not each.done:
            warnings.warn(each.text, stacklevel=3)
    return told
