"""Gradients that are cut where they are too large, by the optimiser itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, cast

from mlflow_resilience.core import grammar
from mlflow_resilience.core.grammar import Word
from mlflow_resilience.errors import UsageError

Kind = Literal["norm", "value", "global_norm"]

#: What Keras calls them.
_ATTRIBUTES: dict[Kind, str] = {"norm": "clipnorm", "value": "clipvalue", "global_norm": "global_clipnorm"}
_WORDS: dict[str, Word] = {kind: Word(f"{kind}:NUMBER", (grammar.positive,), 1) for kind in _ATTRIBUTES}
_MEANS: dict[Kind, str] = {
    "norm": "each gradient clipped to a norm of {:g}",
    "value": "each value of a gradient clipped to {:g}",
    "global_norm": "gradients clipped to a global norm of {:g}",
}


@dataclass(frozen=True)
class Clip:
    """By the norm of each variable's gradient, by value, or by the norm of all gradients together."""

    kind: Kind
    bound: float

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From e.g. ``norm:1.0``; None for ``none``. Raises UsageError."""
        if text == "none":
            return None
        found = grammar.parse(text, _WORDS)
        if len(found) > 1:
            raise UsageError(f"{' and '.join(found)} are two ways to clip: Keras does one")
        ((kind, (bound,)),) = found.items()
        return cls(cast(Kind, kind), bound)


def clip(model: Any, wanted: str | Clip) -> str:
    """Let ``model``'s optimiser clip its gradients: ``norm:1.0``, ``value:0.5`` or ``global_norm:1.0``.

    Call it after ``compile`` and before `fit`. Clipping that the optimiser had is replaced. Returns what was done, in
    words. Raises UsageError for what cannot be read.
    """
    asked = Clip.parse(wanted) if isinstance(wanted, str) else wanted
    if asked is None:
        return ""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    before = [f"{name} {held:g}" for name in _ATTRIBUTES.values() if (held := getattr(optimizer, name)) is not None]
    for kind, name in _ATTRIBUTES.items():
        setattr(optimizer, name, asked.bound if kind == asked.kind else None)
    instead = f", in the place of the optimiser's {before[0]}" if before else ""
    return _MEANS[asked.kind].format(asked.bound) + instead
