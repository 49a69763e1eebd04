"""The training state: all that decides how training goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.errors import CheckpointError

#: The groups of variables that a state holds, in the order in which they are named and restored.
GROUPS = ("model", "optimizer", "metrics")


@dataclass(kw_only=True)
class TrainingState:
    """A training state in memory.

    ``tensors`` maps a name to a value as the framework holds it (a copy-on-write view right after the snapshot) or as
    an array (once read from disk). ``meta`` is plain JSON: position, random state, callbacks, history, settings.
    """

    tensors: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)

    def arrays(self) -> dict[str, np.ndarray]:
        """The tensors as arrays on the host."""
        return {name: np.asarray(value, order="C") for name, value in self.tensors.items()}


def optimizers(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """The compiled optimiser first, then those that the model keeps as attributes (adversarial pairs and the like)."""
    found: list[keras.optimizers.Optimizer] = []
    candidates = [getattr(model, "optimizer", None), *vars(model).values()]
    for candidate in candidates:
        values = candidate if isinstance(candidate, list | tuple) else [candidate]
        for value in values:
            if isinstance(value, keras.optimizers.Optimizer) and not any(value is known for known in found):
                found.append(value)
    return found


def variables(model: keras.Model, group: str) -> list[Any]:
    """The variables of a group in a fixed order. ``model`` holds seed generators too, ``optimizer`` slots and step."""
    if group == "model":
        return list(model.variables)
    if group == "metrics":
        return list(model.metrics_variables)
    return [variable for optimizer in optimizers(model) for variable in optimizer.variables]


def named(model: keras.Model, groups: Sequence[str] = GROUPS) -> Iterator[tuple[str, Any]]:
    """Pairs of name and variable. The number makes the name unique, the path makes it readable."""
    for group in groups:
        for index, variable in enumerate(variables(model, group)):
            yield f"{group}/{index:04d}/{variable.path}", variable


def snapshot(model: keras.Model, groups: Sequence[str] = GROUPS) -> dict[str, Any]:
    """A copy of all variables that costs next to nothing now: memory is copied when training next writes to it."""
    return {name: tf.identity(variable.value) for name, variable in named(model, groups)}


def restore(model: keras.Model, tensors: dict[str, Any], groups: Sequence[str] = GROUPS) -> None:
    """Give the model's variables the values of a snapshot or a checkpoint.

    Everything is checked before the first value is assigned. Raises CheckpointError naming the first tensors that
    differ when the checkpoint belongs to another architecture.
    """
    pairs = []
    differences = []
    for group in groups:
        wanted = sorted(name for name in tensors if name.startswith(f"{group}/"))
        present = variables(model, group)
        if len(wanted) != len(present):
            differences.append(f"{group}: {len(wanted)} tensors in the checkpoint, {len(present)} in the model")
        for name, variable in zip(wanted, present, strict=False):
            shape, expected = tuple(np.shape(tensors[name])), tuple(variable.shape)
            if shape != expected:
                differences.append(f"{variable.path}: {shape} in the checkpoint, {expected} in the model")
            pairs.append((variable, tensors[name]))
    if differences:
        raise CheckpointError(
            "the checkpoint is of another architecture: " + "; ".join(differences[:3])
            + ". Build the same model, or start with resume=never."
        )
    for variable, value in pairs:
        variable.assign(value)
