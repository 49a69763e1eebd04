"""What was recorded of a training: readings every so many steps, and the losses of its epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: What is recorded of each layer at each reading.
#:
#: - ``gradient_norm``: of all its weights, before clipping, without the factor of a scaled loss.
#: - ``weight_mean``, ``weight_std``: of its kernels (of all its weights where it has none).
#: - ``update_ratio``: norm of what one step changed, over the norm of what it changed.
#: - ``silent``: share of its units whose gradient was exactly 0 in this step; NaN where that cannot be told.
#: - ``dead``: share of its units that were silent in each of the last readings.
FEATURES = ("gradient_norm", "weight_mean", "weight_std", "update_ratio", "silent", "dead")


@dataclass(frozen=True, kw_only=True)
class LayerFacts:
    """A layer with weights. ``size`` is how many it has; ``has_kernel`` is False of a normalisation, say, and of an
    embedding, most rows of which have no gradient by nature."""

    name: str
    size: int
    has_kernel: bool


def _none() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Readings are rows, in order; ``steps`` are done steps, ``epochs`` count from 1. ``losses`` are means over the
    steps since the reading before, within an epoch. ``layers`` go from the input to the output, as the model lists
    them; ``values`` is of shape (readings, layers, features).

    ``epoch_numbers`` may have gaps; ``val_losses`` is NaN where there was no validation.
    """

    layers: tuple[LayerFacts, ...] = ()
    steps: Floats = field(default_factory=_none)
    epochs: Floats = field(default_factory=_none)
    losses: Floats = field(default_factory=_none)
    rates: Floats = field(default_factory=_none)
    values: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0, len(FEATURES)), np.float32))
    epoch_numbers: Floats = field(default_factory=_none)
    train_losses: Floats = field(default_factory=_none)
    val_losses: Floats = field(default_factory=_none)
    epoch_rates: Floats = field(default_factory=_none)

    def of(self, feature: str) -> Floats:
        """One feature, of shape (readings, layers)."""
        chosen: Floats = self.values[:, :, FEATURES.index(feature)].astype(np.float64)
        return chosen

    @property
    def global_norms(self) -> Floats:
        """The norm of the gradients of all layers, at each reading."""
        norms: Floats = np.sqrt(np.sum(np.square(self.of("gradient_norm")), axis=1))
        return norms

    @property
    def start_loss(self) -> float:
        """The first loss that is known: what the training began with; NaN where there is none."""
        known = [series[0] for series in (self.losses, self.train_losses) if len(series)]
        return float(known[0]) if known else float("nan")


def of_history(history: Mapping[str, Sequence[float]]) -> Trace:
    """The trace of what Keras's `History.history` holds: enough for the rules that look at epochs alone."""
    losses: Floats = np.asarray(history.get("loss", ()), np.float64)
    val: Floats = np.asarray(history.get("val_loss", ()), np.float64)
    rates: Floats = np.asarray(history.get("learning_rate", ()), np.float64)
    return Trace(
        epoch_numbers=np.arange(1.0, len(losses) + 1),
        train_losses=losses,
        val_losses=val if len(val) == len(losses) else np.full(len(losses), np.nan),
        epoch_rates=rates if len(rates) == len(losses) else np.full(len(losses), np.nan),
    )
