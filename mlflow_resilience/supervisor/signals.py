"""Signals as events of the supervisor's loop, and what a request to stop means."""

from __future__ import annotations

import select
import signal
import socket
import time
from types import FrameType
from typing import Literal, Self

STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
_SAME_REQUEST_SECONDS = 2.0


class Signals:
    """While entered, requests to stop and the end of children wake :meth:`wait`, whatever else goes on.

    A signal that our caller had set to be ignored (``nohup``, a shell's ``&``) stays ignored.
    """

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        watched = [number for number in STOP if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, _nothing) for number in (*watched, signal.SIGCHLD)}
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._reader.close()
        self._writer.close()

    def wait(self, seconds: float) -> list[int]:
        """The signals that came, as soon as one comes; none after so many seconds."""
        ready, _, _ = select.select([self._reader], [], [], max(0.0, seconds))
        return list(self._reader.recv(4096)) if ready else []


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must exist for the wake-up to come."""


class StopRequest:
    """Whether the job was asked to stop. Signals within two seconds of the first are the same request."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._since = 0.0

    def ask(self, reason: str, now: float | None = None) -> Literal["first", "same", "again"]:
        """Take in a request: the first one saves, one that comes again ends at once."""
        now = time.monotonic() if now is None else now
        if self.reason is None:
            self.reason, self._since = reason, now
            return "first"
        return "same" if now - self._since <= _SAME_REQUEST_SECONDS else "again"
