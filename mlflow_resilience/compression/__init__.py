"""A trained model made smaller: pruned, in eight-bit integers, as LiteRT; each measured beside the original.

Reading what is wanted needs no Keras; :func:`compress` loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow_resilience.compression.wanted import Wanted

if TYPE_CHECKING:
    from mlflow_resilience.compression.compressing import compress
    from mlflow_resilience.compression.measured import Measured, Table

__all__ = ["Measured", "Table", "Wanted", "compress"]

_LATER = {"compress": "compressing", "Measured": "measured", "Table": "measured"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
