"""Writes checkpoints in the background: the training thread pays for the snapshot only."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlflow_resilience.training import checkpoint
from mlflow_resilience.training.checkpoint import Checkpoint
from mlflow_resilience.training.pace import Pace
from mlflow_resilience.training.state import TrainingState, finite

_NICE = 10


@dataclass(frozen=True, kw_only=True)
class Request:
    """A snapshot to be written; ``publish`` asks for a logged model of it too. ``stall`` is in seconds, and so is
    ``time``, over which the writing may be spread."""

    state: TrainingState
    publish: bool
    stall: float
    time: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a write took, in seconds: from its beginning to its end without its pauses, and of a processor's time."""

    wall: float
    processor: float


class NotFinite(ArithmeticError):
    """The weights hold NaN or infinity: such a state is never saved."""


class Saver:
    """At most one write is in flight; a failed one is reported and leaves nothing behind.

    ``saved(request, checkpoint, cost)`` and ``failed(request, error)`` are called on the saver's own thread.
    """

    def __init__(
        self,
        folder: Path,
        saved: Callable[[Request, Checkpoint, Cost], None],
        failed: Callable[[Request, Exception], None],
    ) -> None:
        self._folder = folder
        self._saved, self._failed = saved, failed
        self._queue: queue.Queue[Request | None] = queue.Queue()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        self._pace = Pace()
        self.exempt: frozenset[str] = frozenset()  # variables that may hold infinity

    @property
    def busy(self) -> bool:
        """Whether a write is under way."""
        return not self._idle.is_set()

    def save(self, request: Request) -> None:
        """Hand over a snapshot; waits for the write before it, if one is still under way."""
        self.wait()
        self._idle.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="checkpoint-saver", daemon=True)
            self._thread.start()
        self._queue.put(request)

    def hurry(self) -> None:
        """The write under way is needed soon: it is to take no pauses."""
        if self.busy:
            self._pace.hurry()

    def wait(self) -> None:
        """Wait for the write under way."""
        self.hurry()
        self._idle.wait()

    def close(self) -> None:
        """Wait for the last write and end the thread."""
        self.wait()
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
            except Exception:  # of those who are told: whoever waits for this thread would wait for ever
                traceback.print_exc()
            finally:
                del request  # its tensors would stay in memory until the next one
                self._pace.calm()
                self._idle.set()

    def _write(self, request: Request) -> None:
        started, processor = time.perf_counter(), time.thread_time()
        self._pace.spread(request.time)
        try:
            _refuse_non_finite(request.state, self.exempt)
            written = checkpoint.write(self._folder, request.state, self._pace.done)
            wall = time.perf_counter() - started - self._pace.paused
            cost = Cost(wall=wall, processor=time.thread_time() - processor)
            self._saved(request, written, cost)
        except Exception as error:
            self._failed(request, error)


def _refuse_non_finite(state: TrainingState, exempt: frozenset[str]) -> None:
    for name, value in state.tensors.items():
        if name.startswith("model/") and name not in exempt and not finite(value):
            raise NotFinite(f"{name} holds values that are not finite")
