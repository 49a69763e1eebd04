"""Requests to end: signals, seen at once even while training waits for data."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
_SAME_REQUEST = 2.0  # seconds in which further signals are the same request (Ctrl-C comes as SIGINT, then SIGTERM)


class StopRequests:
    """Remembers that a signal asked this process to end.

    Python runs its handlers between two of its own instructions, which a step that waits for data may not reach for
    long. The wake-up descriptor is written by the C handler, so a thread knows in the same millisecond; when training
    has not come to a boundary within ``patience`` seconds, the thread calls ``stuck`` with the signal's name, and again
    each time as long has passed.
    ``passed_on()`` names the signal that somebody else got, and of which the one that comes here is a mere sign.
    """

    def __init__(self, patience: float = 1.0, passed_on: Callable[[], str | None] = lambda: None) -> None:
        self._passed_on = passed_on
        self.asked: str | None = None
        self.stuck: Callable[[str], None] = lambda signal: None
        self._at = 0.0
        self._patience = patience
        self.served = threading.Event()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Listen while inside. Only the main thread can; elsewhere signals stay as they are."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before = {number: signal.signal(number, self._handle) for number in STOP}
        before_writer = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        thread = threading.Thread(target=self._listen, args=(reader,), name="stop-requests", daemon=True)
        thread.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before_writer)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(writer)
            thread.join()
            os.close(reader)

    def _handle(self, number: int, frame: object) -> None:
        """Needed for the wake-up descriptor to be written; the thread does the rest, but for a second request."""
        if self.asked is not None and time.monotonic() - self._at > _SAME_REQUEST:
            raise KeyboardInterrupt(f"asked again to end, by {signal.Signals(number).name}")

    def _listen(self, reader: int) -> None:
        while received := os.read(reader, 64):
            for number in received:
                if number in STOP and self.asked is None:
                    self._at = time.monotonic()
                    told = self._passed_on()
                    self.asked = told if told in signal.Signals.__members__ else signal.Signals(number).name
                    threading.Thread(target=self._watch, name="stop-watch", daemon=True).start()

    def _watch(self) -> None:
        while not self.served.wait(self._patience) and self.asked is not None:
            self.stuck(self.asked)
