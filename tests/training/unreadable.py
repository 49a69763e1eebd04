"""Checkpoints that cannot be read just now, and user code that fails while training goes back: in the children."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import keras

from mlflow_resilience.core.backoff import Backoff
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.errors import RecoveryExhausted
from mlflow_resilience.job import Job
from mlflow_resilience.spool import atomic
from mlflow_resilience.spool.journal import read
from mlflow_resilience.training import tensor_file
from tests.training import fits, pipelines


class Once(keras.callbacks.Callback):
    """Raises at a step, and when training begins for the second time, if it is told to."""

    def __init__(self, step: int | None, again: Exception | None = None) -> None:
        super().__init__()
        self._plan = (step, again)
        self._begun = self._seen = 0

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass

    def on_train_begin(self, logs: Any = None) -> None:
        self._begun += 1
        again = self._plan[1]
        if self._begun == 2 and again is not None:
            raise again

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._seen += 1
        if self._seen == self._plan[0]:
            raise RuntimeError("struck on purpose")


class Failing:
    """Reading tensors fails so many times, and then works."""

    def __init__(self, times: int, error: Exception) -> None:
        self._left, self._error, self._read = times, error, tensor_file.read

    def __call__(self, data: bytes) -> Any:
        self._left -= 1
        if self._left >= 0:
            raise self._error
        return self._read(data)


def _trained(
    folder: Path, *callbacks: Any, times: int = 0, error: Exception | None = None, **how: Any
) -> dict[str, Any]:
    model, call = pipelines.training("slices")
    call["callbacks"] += callbacks
    failing = Failing(times, error or OSError(errno.EIO, "Input/output error"))
    with (
        fits.without_running_ahead(),
        mock.patch.object(tensor_file, "read", failing),
    ):
        policy = Policy(backoff=Backoff(first_seconds=0.01, max_seconds=0.02))
        ended = fits.fit_in(folder, model, call, policy=policy, **how)
    assert ended.history is not None
    return {"outcome": fits.outcome(model, ended.history), **_course(folder)}


def _course(folder: Path) -> dict[str, Any]:
    entries = fits.entries(folder)
    return {
        "faults": [[entry["failure_class"], entry["fault"]["phase"]] for entry in entries if entry["kind"] == "fault"],
        "starts": [entry["step"] for entry in entries if entry["kind"] == "attempt"],
        "damaged": sorted(path.name for path in folder.rglob("damaged-*")),
    }


def rolled_back(folder: Path, kind: str, times: int) -> dict[str, Any]:
    """A training that goes back, and meets storage or memory that fails meanwhile."""
    error = {"storage": OSError(errno.EIO, "Input/output error"), "memory": MemoryError("out of memory")}[kind]
    return _trained(folder, Once(17), times=times, error=error)


def begun_again(folder: Path, times: int) -> dict[str, Any]:
    """A process that takes a training over from one that has left it."""
    try:
        model, call = pipelines.training("slices")
        call["callbacks"].append(Interrupting(17))
        with fits.without_running_ahead():
            fits.fit_in(folder, model, call)
    finally:
        told = _trained(folder, times=times)
    return told


class Interrupting(Once):
    """Asks the training to end."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._seen += 1
        if self._seen == self._plan[0]:
            raise KeyboardInterrupt


def taken_over(folder: Path, times: int) -> dict[str, Any]:
    """A job that goes on with another one, whose newest checkpoint fails to be read so many times."""
    earlier, later = folder / "earlier", folder / "later"
    model, call = pipelines.training("slices")
    call["callbacks"].append(Interrupting(17))
    with fits.without_running_ahead(), contextlib.suppress(KeyboardInterrupt):
        fits.fit_in(earlier, model, call)
    with answered(fits.job_in(later), fits.job_in(earlier)):
        told = _trained(later, times=times, resume="auto")
    (resumed,) = [entry for entry in fits.entries(later) if entry["kind"] == "resumed"]
    unreadable = [entry for entry in fits.entries(later) if entry.get("name") == "checkpoint_unreadable"]
    return {**told, "from": resumed["from_step"], "text": resumed["text"], "unreadable": len(unreadable)}


@contextlib.contextmanager
def answered(job: Job, earlier: Job) -> Iterator[None]:
    """The earlier job is what is found for ``job``, as its sender would say."""
    over = threading.Event()

    def answer() -> None:
        while not over.wait(0.02):
            for entry, _ in read(job.folder.journal):
                path = job.folder.answers / f"{entry.get('request')}.json"
                if entry["kind"] == "ask" and not path.exists():
                    found = {"found": True, "from_step": 16, "checkpoint_folder": str(earlier.folder.checkpoints)}
                    atomic.write_json(path, found)

    answering = threading.Thread(target=answer)
    answering.start()
    yield
    over.set()
    answering.join()


def user_code(folder: Path) -> dict[str, Any]:
    """While training goes back, a callback of the user's raises."""
    try:
        _trained(folder, Once(17, again=RuntimeError("struck on purpose, again")))
    except RecoveryExhausted as error:
        return {"error": str(error), **_course(folder)}
    return {}


def undisturbed(folder: Path) -> dict[str, Any]:
    return _trained(folder)
