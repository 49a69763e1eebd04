"""Snapshots of a model's variables, each by one call, whatever their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.training import state


class Snapshots:
    """Takes what :func:`state.snapshot` gives. Looking for the variables and reading each costs more than all else."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._names: list[str] = []
        self._read: Callable[[], list[Any]] | None = None

    def forget(self) -> None:
        """The model may have other variables from now on."""
        self._read = None

    def take(self) -> dict[str, Any]:
        """A copy of all variables by name; memory is copied when training next writes to it."""
        if self._model.run_eagerly:  # its variables may be made at any time
            return state.snapshot(self._model)
        if self._read is None:
            self._names, self._read = _reading(self._model)
        return dict(zip(self._names, self._read(), strict=True))


def _reading(model: keras.Model) -> tuple[list[str], Callable[[], list[Any]]]:
    names, variables = zip(*state.named(model), strict=True)

    @tf.function(autograph=False)
    def read() -> list[Any]:
        return [tf.identity(state.value_of(variable)) for variable in variables]

    return list(names), read
