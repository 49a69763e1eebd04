"""The training state: all that decides how training goes on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.errors import CheckpointError

#: The groups of variables that a state holds, in the order in which they are named and restored. Of variables that each
#: replica of a model has its own of, the first groups hold the first replica's (or the sum), the last ones every one's.
GROUPS = ("model", "optimizer", "metrics", "untracked", "replicas", "replica_metrics")

#: What each replica has of its own: left aside where there are more of them now, or fewer.
OF_REPLICAS = ("replicas", "replica_metrics")

#: The groups that outlive an epoch.
LASTING = ("model", "optimizer", "untracked", "replicas")


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
    candidates = tf.nest.flatten([getattr(model, "optimizer", None), *map(_plain, vars(model).values())])
    return _once(value for value in candidates if isinstance(value, keras.optimizers.Optimizer))


def variables(model: keras.Model, group: str) -> list[Any]:
    """The variables of a group in a fixed order. ``model`` holds seed generators too, ``optimizer`` slots and step."""
    if group == "model":
        return list(model.variables)
    if group == "metrics":
        return list(model.metrics_variables)
    if group == "optimizer":
        return [variable for optimizer in optimizers(model) for variable in optimizer.variables]
    if group == "replicas":
        return _of_each_replica(model.non_trainable_variables)
    if group == "replica_metrics":
        return _of_each_replica(model.metrics_variables)
    return untracked(model)


def untracked(model: keras.Model) -> list[tf.Variable]:
    """Variables of TensorFlow's own that model or layers keep as attributes, which Keras lists nowhere."""
    found: list[tf.Variable] = []
    for layer in _once([model, *model._flatten_layers()]):
        for value in tf.nest.flatten([_plain(value) for value in vars(layer).values()]):
            if isinstance(value, tf.random.Generator):
                value = value.state
            if isinstance(value, tf.Variable):
                found.append(value)
    return _once(found)


def _of_each_replica(variables: Iterable[Any]) -> list[tf.Variable]:
    """What lies behind variables of several replicas; these may differ, as moving statistics do."""
    held = (getattr(variable, "_value", variable) for variable in variables)
    return [each for value in held if isinstance(value, tf.distribute.DistributedValues) for each in value.values]


def named(model: keras.Model, groups: Sequence[str] = GROUPS) -> Iterator[tuple[str, Any]]:
    """Pairs of name and variable. The number makes the name unique, the path makes it readable."""
    for group in groups:
        for index, variable in enumerate(variables(model, group)):
            yield f"{group}/{index:04d}/{_path(variable)}", variable


def value_of(variable: Any) -> Any:
    """The tensor that a variable of Keras or of TensorFlow holds."""
    return variable.read_value() if isinstance(variable, tf.Variable) else variable.value


def snapshot(model: keras.Model, groups: Sequence[str] = GROUPS) -> dict[str, Any]:
    """A copy of all variables that costs next to nothing now: memory is copied when training next writes to it."""
    return {name: tf.identity(value_of(variable)) for name, variable in named(model, groups)}


def size(model: keras.Model) -> int:
    """The bytes that a snapshot holds."""
    return sum(_elements(variable) * tf.as_dtype(variable.dtype).size for _, variable in named(model))


def finite(value: Any) -> bool:
    """Whether all of a tensor's values are finite; true of whole numbers."""
    dtype = tf.as_dtype(value.dtype)
    return not dtype.is_floating or bool(np.isfinite(np.asarray(value)).all())


def not_finite(model: keras.Model) -> frozenset[str]:
    """The names of the model's variables that hold NaN or infinity."""
    return frozenset(name for name, variable in named(model, ("model",)) if not finite(value_of(variable)))


def restore(model: keras.Model, tensors: dict[str, Any], groups: Sequence[str] = GROUPS) -> None:
    """Give the model's variables the values of a snapshot or a checkpoint.

    Everything is checked before the first value is assigned. Raises CheckpointError naming the first tensors that
    differ when the checkpoint belongs to another architecture. On another number of replicas than it was taken on, all
    of them get what the first one had.
    """
    for variable, value in _matched(model, tensors, groups):
        variable.assign(value)


def check(model: keras.Model, tensors: dict[str, Any], groups: Sequence[str] = LASTING) -> None:
    """Raises the CheckpointError that :func:`restore` would raise."""
    _matched(model, tensors, groups)


def _matched(model: keras.Model, tensors: dict[str, Any], groups: Sequence[str]) -> list[tuple[Any, Any]]:
    pairs, differences = [], []
    for group in groups:
        stored = sorted((name for name in tensors if name.startswith(f"{group}/")), key=_number)
        present = variables(model, group)
        if len(stored) != len(present):
            if group in OF_REPLICAS:
                continue
            differences.append(f"{group}: {len(stored)} tensors in the checkpoint, {len(present)} in the model")
        for name, variable in zip(stored, present, strict=False):
            differences.extend(_difference(variable, tensors[name]))
            pairs.append((variable, tensors[name]))
    if differences:
        listed = "; ".join(differences[:3])
        raise CheckpointError(
            f"the checkpoint is of another architecture: {listed}. Build the same model, or start with resume=never."
        )
    return pairs


def _difference(variable: Any, value: Any) -> list[str]:
    """What keeps ``value`` from being one of ``variable``'s."""
    stored = f"{tf.as_dtype(value.dtype).name} {tuple(np.shape(value))}"
    present = f"{tf.as_dtype(variable.dtype).name} {tuple(variable.shape)}"
    return [] if stored == present else [f"{_path(variable)}: {stored} in the checkpoint, {present} in the model"]


def _number(name: str) -> int:
    return int(name.split("/")[1])


def _path(variable: Any) -> str:
    return str(getattr(variable, "path", None) or variable.name)


def _elements(variable: Any) -> int:
    return math.prod(int(dimension) for dimension in variable.shape)


def _plain(value: Any) -> Any:
    """Keras's tracked containers as plain lists; anything that is no container as it is."""
    if isinstance(value, dict):
        return [_plain(item) for item in value.values()]
    return [_plain(item) for item in value] if isinstance(value, list | tuple | set) else value


def _once(values: Iterable[Any]) -> list[Any]:
    """Each object once, in order."""
    return list({id(value): value for value in values}.values())
