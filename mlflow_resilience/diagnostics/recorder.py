"""The trace as it grows: bounded, and part of the training state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mlflow_resilience.diagnostics.trace import FEATURES, LayerFacts, Trace
from mlflow_resilience.diagnostics.updates import READINGS_OF_SILENCE

#: When there are more readings, every second of the older half is dropped: some bytes a layer, whatever the length.
MOST_READINGS = 512


@dataclass
class Recorder:
    """Where the training stands, its readings, and what of them was told."""

    steps: int = 0  # done since the training began
    epoch: int = 0  # from 1
    epoch_start: int = 0  # steps done when it began
    layers: tuple[LayerFacts, ...] = ()
    readings: list[list[float]] = field(default_factory=list)  # step, epoch, loss, rate
    values: list[NDArray[np.float32]] = field(default_factory=list)  # (layers, features) each
    epochs: list[list[float]] = field(default_factory=list)  # epoch, loss, val_loss, rate
    silence: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))  # of each unit, in readings
    told: list[str] = field(default_factory=list)  # symptoms
    _span: list[float] = field(default_factory=lambda: [0.0, 0.0])  # at the reading: steps of the epoch, mean loss

    def begin_epoch(self, epoch: int) -> None:
        """``epoch`` counts from 0, as Keras's callbacks hear it."""
        self.epoch, self.epoch_start, self._span = epoch + 1, self.steps, [0.0, 0.0]

    def loss_since(self, mean: float) -> float:
        """The mean loss since the reading before, from the mean over the epoch so far."""
        done, (before, earlier) = float(self.steps - self.epoch_start), self._span
        self._span = [done, mean]
        return (mean * done - earlier * before) / (done - before) if done > before else mean

    def silenced(self, units: NDArray[np.float32], offsets: list[tuple[int, int] | None]) -> NDArray[np.float32]:
        """Shares of silent and of dead units of each layer, given all units' gradients; NaN for a layer without."""
        if len(self.silence) != len(units):
            self.silence = np.zeros(len(units), np.int32)
        quiet = units == 0
        if not quiet.all():  # a step without any gradient tells nothing of a single unit
            self.silence += 1
            self.silence *= quiet
        dead = self.silence >= READINGS_OF_SILENCE
        shares = np.full((len(offsets), 2), np.nan, np.float32)
        for row, at in zip(shares, offsets, strict=True):
            if at is not None:
                row[:] = [np.count_nonzero(each[slice(*at)]) / (at[1] - at[0]) for each in (quiet, dead)]
        return shares

    def add(self, loss: float, rate: float, values: NDArray[np.float32]) -> None:
        """One reading, of the step that was done last."""
        self.readings.append([float(self.steps), float(self.epoch), loss, rate])
        self.values.append(values)
        if len(self.readings) > MOST_READINGS:
            half = MOST_READINGS // 2
            self.readings = self.readings[:half:2] + self.readings[half:]
            self.values = self.values[:half:2] + self.values[half:]

    def end_epoch(self, epoch: int, loss: float, val_loss: float, rate: float) -> None:
        """An epoch's losses; NaN for one that there is not."""
        self.epochs.append([float(epoch + 1), loss, val_loss, rate])

    def trace(self) -> Trace:
        """What is recorded so far."""
        readings = np.array(self.readings, np.float64).reshape(-1, 4).T
        epochs = np.array(self.epochs, np.float64).reshape(-1, 4).T
        return Trace(
            layers=self.layers,
            steps=readings[0],
            epochs=readings[1],
            losses=readings[2],
            rates=readings[3],
            values=self._values(),
            epoch_numbers=epochs[0],
            train_losses=epochs[1],
            val_losses=epochs[2],
            epoch_rates=epochs[3],
        )

    def last(self) -> Trace:
        """The last reading alone."""
        step, epoch, loss, rate = (np.array([value]) for value in self.readings[-1])
        values = self.values[-1][np.newaxis]
        return Trace(layers=self.layers, steps=step, epochs=epoch, losses=loss, rates=rate, values=values)

    def _values(self) -> NDArray[np.float32]:
        empty = np.empty((0, len(self.layers), len(FEATURES)), np.float32)
        return np.stack(self.values) if self.values else empty

    def to_state(self) -> dict[str, Any]:
        """As plain values and arrays, which a checkpoint can hold."""
        return {
            "at": [self.steps, self.epoch, self.epoch_start],
            "layers": [[layer.name, layer.size, layer.has_kernel] for layer in self.layers],
            "readings": np.array(self.readings, np.float64).reshape(-1, 4),
            "values": self._values(),
            "epochs": np.array(self.epochs, np.float64).reshape(-1, 4),
            "silence": np.array(self.silence),
            "told": list(self.told),
            "span": list(self._span),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The inverse of :meth:`to_state`."""
        steps, epoch, epoch_start = state["at"]
        return cls(
            steps=steps,
            epoch=epoch,
            epoch_start=epoch_start,
            layers=tuple(LayerFacts(name=name, size=size, has_kernel=has) for name, size, has in state["layers"]),
            readings=np.asarray(state["readings"]).tolist(),
            values=list(np.asarray(state["values"])),
            epochs=np.asarray(state["epochs"]).tolist(),
            silence=np.asarray(state["silence"], np.int32),
            told=list(state["told"]),
            _span=list(state["span"]),
        )
