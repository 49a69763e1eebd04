"""Pruning by magnitude: the smallest weights of each kernel become zero while the rest is trained on."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from mlflow_resilience.compression.copying import bare, compiled

_REACHED = 0.5  # of the fine-tuning: what comes after it lets the rest settle


def schedule(progress: float, final: float) -> float:
    """The share of zeros when ``progress`` (0 to 1) of the fine-tuning is done: it rises fast while there is much to
    take, and slowly at the end, as a cubic (Zhu and Gupta, 2017, "To prune, or not to prune", equation 1)."""
    return final * (1.0 - (1.0 - min(1.0, progress / _REACHED)) ** 3)


def prune(model: keras.Model, share: float, data: dict[str, Any], *, epochs: int, rate: float) -> keras.Model:
    """A pruned copy of ``model``, fine-tuned on ``data`` (arguments of ``fit``) for so many ``epochs``, with the
    learning rate that it was compiled with times ``rate`` where that is a number. Raises UsageError."""
    made = compiled(model)
    made.steps_per_execution = 1  # a mask is put on after every step
    made.optimizer.build(made.trainable_variables)
    if isinstance(made.optimizer._learning_rate, keras.Variable):
        made.optimizer.learning_rate = float(made.optimizer.learning_rate) * rate
    callbacks = [Masks(share, epochs), *data.get("callbacks", ())]
    made.fit(**{**data, "epochs": epochs, "verbose": 0, "callbacks": callbacks})
    return bare(made)


def kernels(model: keras.Model) -> list[Any]:
    """The variables that are pruned: kernels of trainable layers, and neither biases nor normalisation."""
    held = [variable for layer in model._flatten_layers() for variable in layer._trainable_variables]
    return [variable for variable in held if "kernel" in variable.name and len(variable.shape) > 1]


def sparsity(model: keras.Model) -> dict[str, float]:
    """The share of zeros in each kernel."""
    return {variable.path: float(np.mean(variable.numpy() == 0.0)) for variable in kernels(model)}


class Masks(keras.callbacks.Callback):  # type: ignore[misc]
    """Holds the smallest weights of each kernel at zero after every step, more of them as fine-tuning goes on. A
    weight that has become zero stays so, whatever momentum the optimiser has for it."""

    def __init__(self, share: float, epochs: int) -> None:
        super().__init__()
        self._share, self._epochs, self._epoch = share, epochs, 0
        self._masks: dict[str, np.ndarray] = {}

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Which epoch it is."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Put the masks on."""
        steps = self.params.get("steps")
        done = self._epoch + ((batch + 1) / steps if steps else 0.0)
        self._put_on(schedule(done / self._epochs, self._share))

    def on_train_end(self, logs: Any = None) -> None:
        """Whatever the length of the data, the share is reached."""
        self._put_on(self._share)

    def _put_on(self, share: float) -> None:
        for variable in kernels(self.model):
            values = variable.numpy()
            kept = self._masks.get(variable.path, np.ones(values.shape, bool))
            zeros = round(share * values.size)
            if zeros > values.size - int(kept.sum()):
                magnitude = np.where(kept, np.abs(values), -1.0).ravel()
                kept = np.ones(values.size, bool)
                kept[np.argpartition(magnitude, zeros - 1)[:zeros]] = False
                kept = self._masks[variable.path] = kept.reshape(values.shape)
            variable.assign(values * kept)
