"""Which weights belong to which layer, and where their numbers lie in what the graph gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import keras

from mlflow_resilience.diagnostics.trace import LayerFacts

#: The gradient of these, if a vector, is a sum over records and places: one number for each unit.
_OF_UNITS = ("bias", "beta")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """``owners`` has a layer's index for each of ``variables``, ``units`` the place of a layer's units among all."""

    variables: list[Any]
    owners: list[int]
    layers: tuple[LayerFacts, ...]
    weighed: list[list[Any]]  # of each layer, the variables that its weight statistics are of
    unit_variables: list[Any | None]  # of each layer
    units: list[tuple[int, int] | None]

    @property
    def unit_count(self) -> int:
        return max((at[1] for at in self.units if at is not None), default=0)


def layout_of(model: keras.Model) -> Layout:
    """The trainable weights of a built model, in the model's order; layers are told apart by their weights' paths."""
    grouped: dict[str, list[Any]] = {}
    paths = _without_common([_owner(variable) for variable in model.trainable_variables])
    for path, variable in zip(paths, model.trainable_variables, strict=True):
        grouped.setdefault(path, []).append(variable)
    units = [_unit_variable(each) for each in grouped.values()]
    return Layout(
        variables=[variable for each in grouped.values() for variable in each],
        owners=[index for index, each in enumerate(grouped.values()) for _ in each],
        layers=tuple(_facts(name, each) for name, each in grouped.items()),
        weighed=[[one for one in each if len(one.shape) > 1] or each for each in grouped.values()],
        unit_variables=units,
        units=_places(units),
    )


def _facts(name: str, variables: list[Any]) -> LayerFacts:
    kernel = any(len(each.shape) > 1 and each.name != "embeddings" for each in variables)
    return LayerFacts(name=name, size=sum(_size(each) for each in variables), has_kernel=kernel)


def _owner(variable: Any) -> str:
    path, _, _ = str(variable.path).rpartition("/")
    return path or str(variable.name)


def _without_common(paths: list[str]) -> list[str]:
    """The paths without what all begin with: a model's own name has a number that differs from run to run."""
    first = {path.split("/")[0] for path in paths}
    if len(first) > 1 or any("/" not in path for path in paths):
        return paths
    return [path.partition("/")[2] for path in paths]


def _unit_variable(variables: list[Any]) -> Any | None:
    return next((each for each in variables if each.name in _OF_UNITS and len(each.shape) == 1), None)


def _places(units: list[Any | None]) -> list[tuple[int, int] | None]:
    places: list[tuple[int, int] | None] = []
    end = 0
    for variable in units:
        places.append(None if variable is None else (end, end + _size(variable)))
        end += 0 if variable is None else _size(variable)
    return places


def _size(variable: Any) -> int:
    return math.prod(int(dimension) for dimension in variable.shape)
