"""The Keras model in a logged model, made from a snapshot and never from the model that is being trained.

Saving a model while it trains gives a torn file without an error. So a twin of the model is made once, before training,
in host memory; for each logged model it takes on the snapshot's values and is saved.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.training import randomness, state
from mlflow_resilience.training.checkpoint import link_or_copy


class Exporter:
    """Writes the folder of a logged model: ``model.keras`` where that is possible, ``model.json``, and the training
    state. ``loads_standalone`` is None when the model can be loaded by itself, or else the reason why not."""

    def __init__(self, model: keras.Model) -> None:
        self.signature = signature(model)
        self.loads_standalone: str | None = None
        self._twin: keras.Model | None = None
        try:
            with randomness.untouched(), tf.device("/CPU:0"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._twin = _twin_of(model)
        except Exception as error:
            self.loads_standalone = f"{type(error).__name__}: {error}".splitlines()[0][:300]

    @property
    def tags(self) -> dict[str, str]:
        """What the logged model's tags say of it."""
        return {} if self.loads_standalone is None else {"resilience.loads_standalone": "false"}

    def write(self, folder: Path, tensors: dict[str, Any], checkpoint: Path) -> None:
        """Write the folder of a checkpoint's logged model. Raises OSError."""
        folder.mkdir(parents=True)
        if self._twin is not None:
            state.restore(self._twin, tensors, ("model", "optimizer"))
            self._twin.save(folder / "model.keras")
        self._describe(folder)
        shutil.copytree(checkpoint, folder / "training_state", copy_function=link_or_copy)

    def write_final(self, folder: Path, model: keras.Model) -> None:
        """Write the folder of the finished model, which trains no more."""
        folder.mkdir(parents=True)
        if self._twin is not None:
            model.save(folder / "model.keras")
        self._describe(folder)

    def _describe(self, folder: Path) -> None:
        (folder / "model.json").write_text(json.dumps({"signature": self.signature}))


def _twin_of(model: keras.Model) -> keras.Model:
    config = keras.saving.serialize_keras_object(model)
    twin = keras.saving.deserialize_keras_object(config)
    if not twin.built:
        raise ValueError("the model's configuration does not say how it is built")
    if model.optimizer is not None and not twin.optimizer.built:
        twin.optimizer.build(twin.trainable_variables)
    state.restore(twin, state.snapshot(model, ("model", "optimizer")), ("model", "optimizer"))
    return twin


def signature(model: keras.Model) -> dict[str, Any] | None:
    """Inputs and outputs by name, dtype and shape; None for a model that does not tell them."""
    inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
    if not inputs or not outputs:
        return None
    return {"inputs": [_column(tensor) for tensor in inputs], "outputs": [_column(tensor) for tensor in outputs]}


def _column(tensor: Any) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": str(tensor.dtype), "shape": [None, *tensor.shape[1:]]}
