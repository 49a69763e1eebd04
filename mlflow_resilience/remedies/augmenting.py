"""Pictures that are turned, mirrored and moved anew each time they are trained on, by layers at the model's front.

There they draw from seeds that are part of the training state: a resume is exact, however many threads read the data,
and validation and prediction see the pictures as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from mlflow_resilience.core import grammar
from mlflow_resilience.core.grammar import Word
from mlflow_resilience.errors import UsageError

_WORDS = {
    "flip": Word("flip[:horizontal|vertical|both]", (grammar.one_of("horizontal", "vertical", "both"),)),
    "rotate": Word("rotate:SHARE", (grammar.share,), 1),
    "zoom": Word("zoom:SHARE", (grammar.share,), 1),
    "shift": Word("shift:SHARE", (grammar.share,), 1),
    "noise": Word("noise:DEVIATION", (grammar.positive,), 1),
}


@dataclass(frozen=True)
class Augment:
    """What is done, in this order: a word and its value each."""

    steps: tuple[tuple[str, Any], ...]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From e.g. ``flip,rotate:0.1``; None for ``none``. Raises UsageError."""
        if text == "none":
            return None
        found = grammar.parse(text, _WORDS)
        return cls(tuple((name, values[0] if values else "horizontal") for name, values in found.items()))

    def layers(self) -> list[Any]:
        """The layers, of Keras's own."""
        from keras import layers

        made = {
            "flip": lambda way: layers.RandomFlip("horizontal_and_vertical" if way == "both" else way),
            "rotate": layers.RandomRotation,
            "zoom": layers.RandomZoom,
            "shift": lambda share: layers.RandomTranslation(share, share),
            "noise": layers.GaussianNoise,
        }
        built = []
        for name, value in self.steps:
            layer = made[name](value)
            layer.name = f"augment_{name}"
            built.append(layer)
        return built

    def in_words(self) -> str:
        """``pictures are augmented while training: flip horizontal, rotate 0.1``."""
        done = ", ".join(f"{name} {value}" for name, value in self.steps)
        return f"pictures are augmented while training: {done}"


def augment(model: Any, wanted: str | Augment) -> Any:
    """``model`` built once more with its weights, compiled as it was, with augmentation in front:
    ``flip,rotate:0.1,zoom:0.1,shift:0.1,noise:0.05``.

    ``rotate`` is a share of a full turn each way, ``zoom`` and ``shift`` of the picture's size, ``noise`` the standard
    deviation of what is added. The given model is left as it is. Raises UsageError for what cannot be read, for a model
    that cannot be rebuilt, and unless it has one input of pictures (height, width, channels).
    """
    asked = Augment.parse(wanted) if isinstance(wanted, str) else wanted
    if asked is None:
        return model
    from mlflow_resilience.remedies import rebuilding

    rebuilding.refuse(model)
    shapes = [tuple(each.shape) for each in (model.inputs or [])] if model.built else []
    if sum(len(shape) == 4 for shape in shapes) != 1:
        has = f"this one has {', '.join(map(str, shapes))}" if shapes else "this one does not tell its inputs"
        raise UsageError(f"augment: a model with one input of pictures (height, width, channels) is needed; {has}")
    return rebuilding.rebuilt(model, rebuilding.Changes(first=asked.layers()))
