"""The training state with one piece left out on purpose: what each test of identity must notice."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any
from unittest import mock

from mlflow_resilience.training import attempt, callback_state, randomness, state
from mlflow_resilience.training.batches import Feed
from mlflow_resilience.training.data_position import DataPosition


def _without(dropped: Callable[[str], bool]) -> Any:
    """Restoring leaves alone the variables whose name in the state satisfies ``dropped``."""
    restore = state.restore

    def partial(model: Any, tensors: dict[str, Any], groups: tuple[str, ...] = state.GROUPS) -> None:
        mine = {_place(name): state.value_of(variable) for name, variable in state.named(model) if dropped(name)}
        restore(model, {name: mine.get(_place(name), value) for name, value in tensors.items()}, groups)

    return mock.patch.object(state, "restore", partial)


def _place(name: str) -> str:
    """Group and number: the rest of a name is Keras's, which numbers layers through a process."""
    return "/".join(name.split("/")[:2])


def _data_position() -> Any:
    def forgetful(*given: Any, start: DataPosition | None = None, **more: Any) -> Feed:
        if more["training"] and start is not None:
            start = DataPosition(iterators=1, step=start.step)
        return Feed(*given, start=start, **more)

    return mock.patch.object(attempt, "Feed", forgetful)


def _random() -> Any:
    """Only the origin's is restored, which each attempt begins with."""
    begun: list[bool] = []

    def first_only(value: Any, **only: Any) -> None:
        if not begun:
            begun.append(True)
            randomness.restore(value, **only)

    partial = types.SimpleNamespace(restore=first_only, capture=randomness.capture, PARTS=randomness.PARTS)
    return mock.patch.object(attempt, "randomness", partial)


#: Each gives a context in which the piece is left out.
OMISSIONS: dict[str, Callable[[], Any]] = {
    "weights": lambda: _without(lambda name: name.startswith("model/") and "seed_generator" not in name),
    "optimizer": lambda: _without(lambda name: name.startswith("optimizer/")),
    "seed generators": lambda: _without(lambda name: "seed_generator" in name),
    "metrics": lambda: _without(lambda name: name.startswith("metrics/")),
    "data position": _data_position,
    "callbacks": lambda: mock.patch.object(callback_state.CallbackStates, "restore", lambda *_: []),
    "random state": _random,
}
