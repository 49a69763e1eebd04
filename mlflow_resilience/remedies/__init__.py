"""Remedies against trainings that do not come to a good end. Each is switched on by name, and none by itself.

Importing this package and reading what is wanted needs no Keras; each function loads it when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow_resilience.remedies.augmenting import augment
    from mlflow_resilience.remedies.clipping import clip
    from mlflow_resilience.remedies.rates import schedule
    from mlflow_resilience.remedies.regularising import regularise
    from mlflow_resilience.remedies.stopping import early_stopping, plateau

__all__ = ["augment", "clip", "early_stopping", "plateau", "regularise", "schedule"]

_LATER = {
    "augment": "augmenting",
    "clip": "clipping",
    "early_stopping": "stopping",
    "plateau": "stopping",
    "regularise": "regularising",
    "schedule": "rates",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
