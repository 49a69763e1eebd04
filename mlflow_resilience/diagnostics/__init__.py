"""How a training goes, told while it goes: one Keras callback, and pure functions over what it records.

`measuring.py`, `weights.py` and `callback.py` take the readings, `trace.py` holds them, the rules (`gradients.py`,
`updates.py`, `progress.py`, `generalisation.py`) judge them and need NumPy alone. What needs TensorFlow is loaded on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlflow_resilience.diagnostics.judging import verdicts
from mlflow_resilience.diagnostics.trace import Trace, of_history
from mlflow_resilience.diagnostics.verdict import Verdict

if TYPE_CHECKING:
    from mlflow_resilience.diagnostics.asking import callback_from
    from mlflow_resilience.diagnostics.callback import Diagnostics
    from mlflow_resilience.diagnostics.figure import png
    from mlflow_resilience.diagnostics.restarting import try_rates

__all__ = ["Diagnostics", "Trace", "Verdict", "callback_from", "of_history", "png", "try_rates", "verdicts"]

_LATER = {"Diagnostics": "callback", "callback_from": "asking", "png": "figure", "try_rates": "restarting"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
