"""The recipe's parameter `diagnostics`: `off`, or a number of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow_resilience.errors import UsageError

if TYPE_CHECKING:
    from mlflow_resilience.diagnostics.callback import Diagnostics


def steps_from(text: str) -> int | None:
    """How many steps lie between two readings; None for ``off`` (or ``none``, or nothing). Raises UsageError."""
    word = text.strip().lower()
    if word in ("off", "none", ""):
        return None
    if not word.isascii() or not word.isdigit() or int(word) < 1:
        raise UsageError(f"diagnostics is `off` or a number of steps from 1, such as 50, and not {text!r}")
    return int(word)


def callback_from(text: str) -> Diagnostics | None:
    """The callback that the parameter asks for; None for ``off``. Raises UsageError."""
    every = steps_from(text)
    if every is None:
        return None
    from mlflow_resilience.diagnostics.callback import Diagnostics

    return Diagnostics(every=every)
