"""Waits in the worker for a named moment, and strikes there: once over all processes of a cell.

Where the moment is a file's (a checkpoint being written or read, a logged model being made), Python's own audit event
of the file's opening tells it, so that nothing of the training is replaced.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow_resilience.drill import blows

RECIPE = "mlflow_resilience.drill.struck_recipe"  # what a cell's job trains
FOLDER = "MLFLOW_RESILIENCE_DRILL_CELL"  # the variable that names the cell's folder
EPOCH = 1  # the second: there is one before it to go back to
_IN_A_TRACE = 0.15  # seconds after a first step has begun
_MARKS, _WORKERS = "struck", "workers"
_GOING_ON = ("resume", "recovery")
_IN_CODE = ("raise", "bug", "device_fault")  # raised by what runs when training begins, and not by a file's opening


@dataclass(frozen=True)
class Order:
    """The recipe that is drilled, and what is to strike where; of the control nothing. ``batch`` is the one in the
    middle of an epoch."""

    recipe: str
    kind: str = ""
    place: str = ""
    batch: int = 0

    @classmethod
    def read(cls, folder: Path) -> Order:
        return cls(**json.loads((folder / "order.json").read_text()))

    def write(self, folder: Path) -> None:
        (folder / "order.json").write_text(json.dumps(vars(self)))


class Striker:
    """Told of the moments of a training; ``folder`` is the cell's, ``job`` the job's."""

    def __init__(self, order: Order, folder: Path, job: Path) -> None:
        self._order, self._folder, self._job = order, folder, job
        self._first = _count(folder / _WORKERS) == 1
        self._lock = threading.Lock()
        self._begun = 0
        self.epoch = 0
        if self._wanted:
            sys.addaudithook(self._audited)

    @property
    def _wanted(self) -> bool:
        return bool(self._order.kind) and not (self._folder / _MARKS).exists()

    def training_begins(self) -> None:
        self._begun += 1
        if self._order.place in _GOING_ON and self._order.kind in _IN_CODE and self._goes_on:
            self._strike()

    @property
    def _goes_on(self) -> bool:
        """Whether training goes on from a state: in a second process; in the first from where recovery went back."""
        return not self._first or (self._order.place == "recovery" and self._begun > 1)

    def batch_begins(self, batch: int) -> None:
        if batch == 0 and self.epoch == 0 and self._order.place == "first_trace" and self._first:
            threading.Timer(_IN_A_TRACE, self._strike).start()

    def batch_ended(self, batch: int) -> None:
        if batch >= self._order.batch:
            self._at("mid_epoch")

    def validated(self) -> None:
        self._at("validation")

    def epoch_ended(self) -> None:
        self._at("epoch_end")

    def _at(self, place: str) -> None:
        if place == self._order.place and self.epoch >= EPOCH:
            self._strike()

    def _strike(self) -> None:
        with self._lock:
            if not self._wanted:
                return
            _write_durably(self._folder / _MARKS, {"kind": self._order.kind, "place": self._order.place})
        blows.strike(self._order.kind, self._job)

    def _audited(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str | os.PathLike) and isinstance(given[1], str):
            place = self._place(Path(given[0]), given[1])
            if place == self._order.place:
                self._strike()

    def _place(self, path: Path, mode: str) -> str:
        """What it means that this file is opened."""
        if "w" in mode:
            if path.name == "state.json" and path.parent.name.startswith(".writing-") and self.epoch >= EPOCH:
                return "checkpoint_write"
            made = path.name == "model.json" and path.parent.parent.name == "models"
            return "publishing" if made and self.epoch >= EPOCH else ""
        if path.name != "state.safetensors" or self._order.kind in _IN_CODE:
            return ""
        return "resume" if self._goes_on and self._order.place == "resume" else "recovery"


def struck(folder: Path) -> list[str]:
    """What has struck, as ``KIND@PLACE``."""
    try:
        told = json.loads((folder / _MARKS).read_text())
    except (OSError, ValueError):
        return []
    return [f"{told['kind']}@{told['place']}"]


def callback(striker: Striker) -> Any:
    """The Keras callback that tells the striker. It has no state, and reads no logs."""
    import keras

    class Telling(keras.callbacks.Callback):  # type: ignore[misc]
        """Tells the striker how far training is."""

        def get_state(self) -> dict[str, Any]:
            return {}

        def set_state(self, state: dict[str, Any]) -> None:
            pass

        def on_train_begin(self, logs: Any = None) -> None:
            striker.training_begins()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            striker.epoch = epoch

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            striker.batch_begins(batch)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            striker.batch_ended(batch)

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            striker.validated()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            striker.epoch_ended()

    return Telling()


def _count(path: Path) -> int:
    """How many have asked so far, this one included."""
    with path.open("a+") as file:
        file.write(f"{os.getpid()} {time.time()}\n")
        file.flush()
        file.seek(0)
        return len(file.readlines())


def _write_durably(path: Path, value: Any) -> None:
    with path.open("x") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
