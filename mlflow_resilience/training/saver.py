"""Writes checkpoints in the background: the training thread pays for the snapshot only."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlflow_resilience.training import checkpoint
from mlflow_resilience.training.checkpoint import Checkpoint
from mlflow_resilience.training.state import TrainingState, finite

_NICE = 10


@dataclass(frozen=True, kw_only=True)
class Request:
    """A snapshot to be written; ``publish`` asks for a logged model of it too. ``stall`` is in seconds."""

    state: TrainingState
    publish: bool
    stall: float


class NotFinite(ArithmeticError):
    """The weights hold NaN or infinity: such a state is never saved."""


class Saver:
    """At most one write is in flight; a failed one is reported and leaves nothing behind.

    ``saved(request, checkpoint, seconds)`` and ``failed(request, error)`` are called on the saver's own thread.
    """

    def __init__(
        self,
        folder: Path,
        saved: Callable[[Request, Checkpoint, float], None],
        failed: Callable[[Request, Exception], None],
    ) -> None:
        self._folder = folder
        self._saved, self._failed = saved, failed
        self._queue: queue.Queue[Request | None] = queue.Queue()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        self.exempt: frozenset[str] = frozenset()  # variables that may hold infinity

    @property
    def busy(self) -> bool:
        """Whether a write is under way."""
        return not self._idle.is_set()

    def save(self, request: Request) -> None:
        """Hand over a snapshot; waits for the write before it, if one is still under way."""
        self._idle.wait()
        self._idle.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="checkpoint-saver", daemon=True)
            self._thread.start()
        self._queue.put(request)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the write under way. False when it did not end in time."""
        return self._idle.wait(timeout)

    def close(self) -> None:
        """Wait for the last write and end the thread."""
        self._idle.wait()
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # the threads that train come first
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while (request := self._queue.get()) is not None:
            try:
                self._write(request)
            finally:
                del request  # its tensors would stay in memory until the next one
                self._idle.set()

    def _write(self, request: Request) -> None:
        started = time.perf_counter()
        try:
            _refuse_non_finite(request.state, self.exempt)
            written = checkpoint.write(self._folder, request.state)
            self._saved(request, written, time.perf_counter() - started)
        except Exception as error:
            self._failed(request, error)


def _refuse_non_finite(state: TrainingState, exempt: frozenset[str]) -> None:
    for name, value in state.tensors.items():
        if name.startswith("model/") and name not in exempt and not finite(value):
            raise NotFinite(f"{name} holds values that are not finite")
