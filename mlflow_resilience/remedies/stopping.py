"""What is done when a figure gets no better: training ends, or the learning rate is lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from mlflow_resilience.core import grammar
from mlflow_resilience.core.grammar import Word
from mlflow_resilience.errors import UsageError

_MODE = Word("mode:min|max", (grammar.one_of("min", "max"),), 1)
_DELTA = Word("min_delta:NUMBER", (grammar.positive,), 1)
_STOPPING = {"restore": Word("restore"), "min_delta": _DELTA, "mode": _MODE}
_PLATEAU = {
    "factor": Word("factor:SHARE", (grammar.share,), 1),
    "least": Word("least:RATE", (grammar.positive,), 1),
    "min_delta": _DELTA,
    "mode": _MODE,
}


@dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """End when ``monitor`` was no better for ``patience`` epochs; ``restore`` the weights of its best epoch."""

    monitor: str
    patience: int
    min_delta: float = 0.0
    mode: str = "auto"
    restore: bool = False

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From e.g. ``val_loss:5,restore``; None for ``none``. Raises UsageError."""
        if text == "none":
            return None
        monitor, patience, more = _monitored(text, _STOPPING)
        values = {name: told[0] for name, told in more.items() if name != "restore"}
        return cls(monitor=monitor, patience=patience, restore="restore" in more, **values)

    def callback(self) -> Any:
        """Keras's own, whose state is part of every checkpoint."""
        import keras

        return keras.callbacks.EarlyStopping(
            self.monitor,
            min_delta=self.min_delta,
            patience=self.patience,
            mode=self.mode,
            restore_best_weights=self.restore,
        )

    def in_words(self) -> str:
        """``training ends when val_loss was no better for 5 epochs``."""
        by = f" by more than {self.min_delta:g}" if self.min_delta else ""
        then = ", with the weights of its best epoch" if self.restore else ""
        return f"training ends when {self.monitor} was no better{by} for {_epochs(self.patience)}{then}"


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """Multiply the learning rate by ``factor`` when ``monitor`` was no better for ``patience`` epochs."""

    monitor: str
    patience: int
    factor: float = 0.5
    least: float = 0.0
    min_delta: float = 1e-4  # Keras's own default
    mode: str = "auto"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """From e.g. ``val_loss:3,factor:0.2``; None for ``none``. Raises UsageError."""
        if text == "none":
            return None
        monitor, patience, more = _monitored(text, _PLATEAU)
        return cls(monitor=monitor, patience=patience, **{name: told[0] for name, told in more.items()})

    def callback(self) -> Any:
        """Keras's own, whose state is part of every checkpoint."""
        import keras

        return keras.callbacks.ReduceLROnPlateau(
            self.monitor,
            factor=self.factor,
            patience=self.patience,
            mode=self.mode,
            min_delta=self.min_delta,
            min_lr=self.least,
        )

    def in_words(self) -> str:
        """``learning rate times 0.5 when val_loss was no better for 3 epochs``."""
        least = f", down to {self.least:g}" if self.least else ""
        return (
            f"learning rate times {self.factor:g} when {self.monitor} was no better for {_epochs(self.patience)}{least}"
        )


def early_stopping(wanted: str) -> Any:
    """The callback of ``val_loss:5,restore,min_delta:0.001``. Raises UsageError."""
    asked = EarlyStopping.parse(wanted)
    if asked is None:
        raise UsageError("early_stopping=none is no callback")
    return asked.callback()


def plateau(wanted: str) -> Any:
    """The callback of ``val_loss:3,factor:0.5,least:1e-6``. Raises UsageError."""
    asked = Plateau.parse(wanted)
    if asked is None:
        raise UsageError("plateau=none is no callback")
    return asked.callback()


def check(name: str, asked: EarlyStopping | Plateau, model: Any, *, validated: bool) -> None:
    """Raises UsageError where ``monitor`` is no figure of this training, as far as that can be told before it."""
    told = f"{name}: {asked.monitor}"
    if asked.monitor.startswith("val_") and not validated:
        raise UsageError(f"{told} needs validation data, and the recipe has none: choose loss, or another metric")
    known = _names(model) if asked.mode == "auto" else None  # Keras takes any name when it is told what is better
    plain = asked.monitor.removeprefix("val_")
    if known is not None and plain not in known:
        named = ", ".join((f"val_{each}" if validated else each) for each in known)
        raise UsageError(f"{told} is not measured in this training; measured are {named}")
    if isinstance(asked, Plateau) and not _has_plain_rate(model):
        raise UsageError(f"{name}: the model's optimiser has a schedule, so that its rate cannot be set: choose one")


def _names(model: Any) -> list[str] | None:
    """The loss and the metrics of a model of one output; None where they are not all given by name or as objects."""
    config = getattr(model, "_compile_config", None)
    if config is None or len(getattr(model, "outputs", None) or [None]) > 1:
        return None
    lists = [config.config.get(name) or [] for name in ("metrics", "weighted_metrics")]
    if not all(isinstance(each, list | tuple) for each in lists):
        return None
    names = [_name(metric) for each in lists for metric in each]
    return ["loss", *map(str, names)] if all(names) else None


def _name(metric: Any) -> str | None:
    name = metric if isinstance(metric, str) else getattr(metric, "name", None)
    return name if isinstance(name, str) else None


def _has_plain_rate(model: Any) -> bool:
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return hasattr(optimizer._learning_rate, "assign")


def _monitored(text: str, words: Mapping[str, Word]) -> tuple[str, int, dict[str, tuple[Any, ...]]]:
    first, comma, more = text.partition(",")
    monitor, _, patience = first.strip().rpartition(":")
    try:
        epochs = grammar.whole(patience)
    except ValueError:
        epochs = 0
    if not monitor or not epochs:
        raise UsageError(f"{first.strip()!r} cannot be read: METRIC:EPOCHS is needed, as val_loss:5")
    return monitor, epochs, grammar.parse(more, words) if comma else {}


def _epochs(count: int) -> str:
    return f"{count} epoch{'s' if count > 1 else ''}"
