"""What saving all the time costs a training."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from intervals import interval
from training import EVERY, WIDTHS, Times, batch_for, data, make, ours, plainly


class Turns:
    """Two trainings at once, of which only one runs: they take turns of ten steps, each of which holds one save.

    What else the machine does changes from one second to the next; what is compared lies within two seconds.
    """

    def __init__(self, ways: tuple[str, str]) -> None:
        self._ways = ways
        self._changed = threading.Condition()
        self._whose = ways[0]
        self._left: set[str] = set()

    def wait(self, way: str) -> None:
        """Returns when it is the turn of ``way``."""
        with self._changed:
            self._changed.wait_for(lambda: self._whose == way or self._other(way) in self._left)

    def give(self, way: str, *, for_good: bool = False) -> None:
        """The turn of ``way`` is over."""
        with self._changed:
            self._whose = self._other(way)
            if for_good:
                self._left.add(way)
            self._changed.notify_all()

    def _other(self, way: str) -> str:
        return self._ways[1 - self._ways.index(way)]


class InTurns(Times):
    """Seconds of each turn of one training; the turn ends before a save, so that its writing falls into its own."""

    def __init__(self, way: str, turns: Turns) -> None:
        super().__init__()
        self._way, self._turns, self._steps = way, turns, 0
        self._since: float | None = None
        self.seconds: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._steps += 1
        if self._steps % EVERY:
            return
        if self._since is not None:
            self.seconds.append(time.perf_counter() - self._since)
        self._turns.give(self._way)
        self._turns.wait(self._way)
        self._since = time.perf_counter()


def in_turns(width: int, batch: int, steps: int) -> dict[str, list[float]]:
    """Seconds of the turns of bare `fit`, and of ours with a local checkpoint every ten steps."""
    turns = Turns(("bare", "ours"))
    found = {}

    def train(way: str, fit: Callable[..., None]) -> None:
        turns.wait(way)
        model, times = make(width), InTurns(way, turns)
        fit(model, {"x": data(width, batch, steps), "verbose": 0}, times)
        turns.give(way, for_good=True)
        found[way] = times.seconds[2:]  # in the first ones things are traced and warm up

    # Ours on the main thread, where signal handlers can be installed.
    other = threading.Thread(target=train, args=("bare", plainly))
    other.start()
    train("ours", ours)
    other.join()
    return found


def measure(quick: bool) -> dict[str, Any]:
    """Bare `fit` and ours with a local checkpoint every ten steps, in pairs of trainings that take turns."""
    pairs, turns = (2, 3) if quick else (20, 10)
    width = WIDTHS["1 M"]
    batch = batch_for(width, 0.1)
    ratios, bare = [], []
    for _ in range(pairs):
        found = in_turns(width, batch, (turns + 3) * EVERY)
        around = zip(found["ours"], itertools.pairwise(found["bare"]), strict=False)
        ratios.append(statistics.median(ours / statistics.mean(plain) for ours, plain in around))
        bare += found["bare"]
    low, high = interval(ratios)
    result = {
        "pairs": pairs,
        "turns": turns,
        "step_ms": round(1000 * statistics.median(bare) / EVERY, 1),
        "state_mb": round(make(width).count_params() * 12 / 1e6, 1),
        "ratio": round(statistics.median(ratios), 4),
        "interval": [round(low, 4), round(high, 4)],
        "ratios": [round(ratio, 4) for ratio in ratios],
    }
    return {"result": result}


def page(told: dict[str, Any]) -> list[str]:
    result = told["result"]
    low, high = result["interval"]
    return [
        "## What saving all the time costs",
        "",
        f"Our `fit` with a local checkpoint every ten steps of {result['step_ms']} ms, state of {result['state_mb']} "
        f"MB, against bare `fit`: **{result['ratio']}** of its time (median of {result['pairs']} pairs of "
        f"trainings that take turns of ten steps, which hold one save; each pair by the median of {result['turns']} "
        f"turns against the bare ones around them; 95 % interval {low} to {high}).",
        "",
    ]
