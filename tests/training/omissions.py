"""The training state with one piece left out on purpose: what each test of identity must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlflow_resilience.training import attempt, batches, callback_state, randomness, state


def _without(dropped: Callable[[str], bool]) -> None:
    """Restoring leaves alone the variables whose name in the state satisfies ``dropped``."""
    restore = state.restore

    def partial(model: Any, tensors: dict[str, Any], groups: tuple[str, ...] = state.GROUPS) -> None:
        mine = {name: variable.value for name, variable in state.named(model) if dropped(name)}
        restore(model, {**tensors, **mine}, groups)

    state.restore = partial


def _optimizer() -> None:
    _without(lambda name: name.startswith("optimizer/"))


def _seed_generators() -> None:
    _without(lambda name: "seed_generator" in name)


def _metrics() -> None:
    _without(lambda name: name.startswith("metrics/"))


def _data_position() -> None:
    feed = attempt._feed

    def forgetful(arguments: Any, training: bool, stored: Any, resume: Any) -> Any:
        made = feed(arguments, training, stored, resume)
        if training and made.start is not None:
            made.start = batches.DataPosition(iterators=1, step=made.start.step)
        return made

    attempt._feed = forgetful


def _callbacks() -> None:
    callback_state.restore = lambda *_: []


def _random() -> None:
    restore = randomness.restore
    begun: list[bool] = []

    def partial(value: Any, **only: Any) -> None:
        if begun:  # the first is that of the origin
            return
        begun.append(True)
        restore(value, **only)

    attempt.randomness = type("Randomness", (), {"restore": staticmethod(partial), "capture": randomness.capture})


OMISSIONS: dict[str, Callable[[], None]] = {
    "optimizer": _optimizer,
    "seed generators": _seed_generators,
    "metrics": _metrics,
    "data position": _data_position,
    "callbacks": _callbacks,
    "random state": _random,
}


def leave_out(piece: str) -> None:
    OMISSIONS[piece]()
