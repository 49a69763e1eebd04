"""Against overfitting: penalties on large weights, dropout and batch normalisation in a model that has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from mlflow_resilience.core import grammar
from mlflow_resilience.core.grammar import Word
from mlflow_resilience.errors import UsageError

_WORDS = {
    "l1": Word("l1:FACTOR", (grammar.positive,), 1),
    "l2": Word("l2:FACTOR", (grammar.positive,), 1),
    "dropout": Word("dropout:SHARE", (grammar.share,), 1),
    "batchnorm": Word("batchnorm"),
}
_PENALISED = ("kernel_regularizer", "depthwise_regularizer", "pointwise_regularizer")
_MOMENTUM = 0.9  # of the moving statistics: at the 0.99 of Keras hundreds of steps pass before validation is of use


@dataclass(frozen=True, kw_only=True)
class Regularise:
    """Factors of the penalties on kernels (0 for none), the share that dropout drops, and batch normalisation."""

    l1: float = 0.0
    l2: float = 0.0
    dropout: float = 0.0
    batchnorm: bool = False

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From e.g. ``l2:1e-4,dropout:0.3,batchnorm``; None for ``none``. Raises UsageError."""
        if text == "none":
            return None
        found = grammar.parse(text, _WORDS)
        values = {name: told[0] for name, told in found.items() if told}
        return cls(batchnorm="batchnorm" in found, **values)


def regularise(model: Any, wanted: str | Regularise) -> Any:
    """``model`` built once more with its weights, compiled as it was, and regularised:
    ``l2:1e-4,dropout:0.3,batchnorm``.

    The given model is left as it is. Penalties go to every kernel that has none. Batch normalisation comes between
    each hidden dense or convolution layer and its activation, dropout after it; a layer that is followed by one of its
    own gets none. Layers within a model that is a layer itself are left as they are. Raises UsageError for what cannot
    be read, for a model that cannot be rebuilt, and where nothing could be added.
    """
    return regularised(model, wanted)[0]


def regularised(model: Any, wanted: str | Regularise) -> tuple[Any, list[str]]:
    """The same, with what was done in words."""
    asked = Regularise.parse(wanted) if isinstance(wanted, str) else wanted
    if asked is None:
        return model, []
    from mlflow_resilience.remedies import rebuilding

    rebuilding.refuse(model)
    work = _Work(model, asked)
    changes = rebuilding.Changes(config=work.config, after=work.after)
    return rebuilding.rebuilt(model, changes), work.in_words()


class _Work:
    """Which layers get what."""

    def __init__(self, model: Any, asked: Regularise) -> None:
        import keras

        from mlflow_resilience.remedies.rebuilding import following, heads, layers_of

        kinds = _with_kernels()
        last = {id(each) for each in heads(model, kinds)}
        hidden = [each for each in layers_of(model) if isinstance(each, kinds) and id(each) not in last]

        def without(kind: type, apart: Callable[[Any], list[Any]]) -> list[Any]:
            return [layer for layer in hidden if not any(isinstance(each, kind) for each in apart(layer))]

        self._asked = asked
        self.penalised: list[Any] = []
        if asked.l1 or asked.l2:
            self.penalised = [each for each in layers_of(model) if _free(each)]
        self.dropped = (
            without(keras.layers.Dropout, lambda each: _beyond(model, each, following)) if asked.dropout else []
        )
        self.normalised = (
            without(keras.layers.BatchNormalization, lambda each: following(model, each)) if asked.batchnorm else []
        )
        self._refuse_nothing()

    def config(self, layer: Any, config: dict[str, Any]) -> dict[str, Any]:
        """What the copy of ``layer`` is made from."""
        if _in(layer, self.penalised):
            penalty = _penalty(self._asked)
            config |= {name: penalty for name in _PENALISED if name in config and config[name] is None}
        if _in(layer, self.normalised):
            config |= {"activation": "linear"}
        return config

    def after(self, layer: Any) -> list[Any]:
        """The new layers behind ``layer``."""
        from keras import layers

        added: list[Any] = []
        if _in(layer, self.normalised):
            axis = 1 if getattr(layer, "data_format", None) == "channels_first" else -1
            added.append(layers.BatchNormalization(axis, momentum=_MOMENTUM, name=f"{layer.name}_batchnorm"))
            if not _is_linear(layer):
                added.append(layers.Activation(layer.activation, name=f"{layer.name}_activation"))
        if _in(layer, self.dropped):
            added.append(layers.Dropout(self._asked.dropout, name=f"{layer.name}_dropout"))
        return added

    def in_words(self) -> list[str]:
        """A line for each thing done, with the layers that it was done to."""
        asked = self._asked
        factors = [f"{name} {factor:g}" for name, factor in (("L1", asked.l1), ("L2", asked.l2)) if factor]
        done = [(f"penalty {' and '.join(factors)} on the kernels of", self.penalised)]
        done += [("batch normalisation after", self.normalised), (f"dropout {asked.dropout:g} after", self.dropped)]
        return [f"{what} {', '.join(layer.name for layer in layers)}" for what, layers in done if layers]

    def _refuse_nothing(self) -> None:
        asked = self._asked
        wanted = {
            "l1 or l2: there is no layer with a kernel that is not penalised already": (
                asked.l1 or asked.l2,
                self.penalised,
            ),
            "dropout: there is no hidden dense or convolution layer without dropout": (asked.dropout, self.dropped),
            "batchnorm: there is no hidden dense or convolution layer without batch normalisation": (
                asked.batchnorm,
                self.normalised,
            ),
        }
        for told, (is_asked, found) in wanted.items():
            if is_asked and not found:
                raise UsageError(f"regularise={told}")


def _with_kernels() -> tuple[type, ...]:
    from keras import layers

    kinds = [layers.Dense]
    for dimensions in ("1D", "2D", "3D"):
        kinds += [getattr(layers, f"Conv{dimensions}"), getattr(layers, f"Conv{dimensions}Transpose")]
    kinds += [layers.SeparableConv1D, layers.SeparableConv2D, layers.DepthwiseConv1D, layers.DepthwiseConv2D]
    return tuple(kinds)


def _beyond(model: Any, layer: Any, following: Callable[[Any, Any], list[Any]]) -> list[Any]:
    """What follows a layer, seen through its activation, normalisation and pooling."""
    import keras

    transparent = (keras.layers.Activation, keras.layers.BatchNormalization, keras.layers.MaxPooling2D)
    found = following(model, layer)
    return [
        *found,
        *(more for each in found if isinstance(each, transparent) for more in _beyond(model, each, following)),
    ]


def _free(layer: Any) -> bool:
    return any(getattr(layer, name, layer) is None for name in _PENALISED)


def _penalty(asked: Regularise) -> Any:
    from keras import regularizers

    if asked.l1 and asked.l2:
        return regularizers.L1L2(l1=asked.l1, l2=asked.l2)
    return regularizers.L1(asked.l1) if asked.l1 else regularizers.L2(asked.l2)


def _is_linear(layer: Any) -> bool:
    from keras import activations

    return getattr(layer, "activation", None) in (None, activations.linear)


def _in(layer: Any, layers: list[Any]) -> bool:
    return any(each is layer for each in layers)
