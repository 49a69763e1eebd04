"""What is to be made of a trained model, as the parameter ``compress`` has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from mlflow_resilience.core import grammar
from mlflow_resilience.core.grammar import Word

EPOCHS = 4  # of fine-tuning

_WORDS = {
    "prune": Word("prune:SHARE[:EPOCHS]", (grammar.share, grammar.whole), 1),
    "int8": Word("int8"),
    "litert": Word("litert"),
    "qat": Word("qat"),
}


@dataclass(frozen=True)
class Wanted:
    """``prune``: the share of each kernel's weights that become zero, over so many ``epochs`` of fine-tuning. ``int8``:
    Keras's own quantisation. ``litert``: LiteRT with post-training int8. ``qat``: quantisation-aware training."""

    prune: float | None = None
    epochs: int = EPOCHS
    int8: bool = False
    litert: bool = False
    qat: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """From e.g. ``prune:0.5,int8``, or ``none``. Raises UsageError."""
        if text == "none":
            return cls()
        found = grammar.parse(text, _WORDS)
        prune = found.get("prune", ())
        return cls(
            prune=prune[0] if prune else None,
            epochs=prune[1] if len(prune) > 1 else EPOCHS,
            **{name: name in found for name in ("int8", "litert", "qat")},
        )

    def __bool__(self) -> bool:
        return self != Wanted(epochs=self.epochs)
