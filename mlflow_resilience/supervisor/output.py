"""A worker's output: always drained, kept within bounds, passed on without secrets and TensorFlow's start-up noise."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mlflow_resilience.core.redaction import redact

KEPT_BYTES = 4 << 20  # in the log; as much again in the part before it
TAIL_LINES = 60
_LONGEST_LINE = 1 << 14

_NOISE = re.compile(
    r"^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] \S+:\d+\]"
    r"|[IWE]\d{4} \d\d:\d\d:\d+\.\d+\s+\d+ \S+:\d+\]"
    r"|WARNING: All log messages before absl::InitializeLog\(\)"
    r"|To enable the following instructions: .*rebuild TensorFlow)"
)
_KEY_BEGINS, _KEY_ENDS = (re.compile(rf"-----{word} [A-Z ]*PRIVATE KEY") for word in ("BEGIN", "END"))
_KEY_LINES = 100  # a longer one there is not; what else says that a key begins may go on
_HELD = "-----BEGIN " + "PRIVATE KEY-----"


def is_noise(line: str) -> bool:
    """Whether it is one of the lines that TensorFlow's own libraries log."""
    return _NOISE.match(line) is not None


class Cleaner:
    """Takes the secrets out of lines as they come; a key in lines of its own may come in several parts."""

    def __init__(self) -> None:
        self._left = 0  # lines that may yet belong to a key that has begun

    def clean(self, text: str) -> str:
        """Whole lines, without the end of the last."""
        held = self._left > 0
        told = f"{_HELD}\n{text}" if held else text
        begins = [match.end() for match in _KEY_BEGINS.finditer(told)]
        if begins and _KEY_ENDS.search(told, begins[-1]) is None:
            self._left = max(0, (self._left if held else _KEY_LINES) - text.count("\n") - 1)
        else:
            self._left = 0
        cleaned = redact(told)
        return cleaned.removeprefix(_HELD) if held else cleaned


class OutputLog:
    """``worker.log``: all that the workers of a job wrote, the oldest dropped beyond a bound."""

    def __init__(self, path: Path, kept_bytes: int = KEPT_BYTES) -> None:
        self._path, self._kept = path, kept_bytes
        self._file = path.open("ab", buffering=0)

    def write(self, data: bytes) -> None:
        """Add to the log. A full disk loses the output, not the job."""
        try:
            if self._file.tell() > self._kept:
                self._file.close()
                self._path.replace(self._path.with_suffix(".log.1"))
                self._file = self._path.open("ab", buffering=0)
            self._file.write(data)
        except OSError:
            pass

    def close(self) -> None:
        self._file.close()


class Pump(threading.Thread):
    """Reads one worker's pipe to its end."""

    def __init__(self, descriptor: int, log: OutputLog, show: Callable[[str], None]) -> None:
        super().__init__(name="output", daemon=True)
        self._descriptor, self._log, self._show = descriptor, log, show
        self._tail: deque[tuple[float, str]] = deque(maxlen=TAIL_LINES)
        self._rest = b""
        self._cleaner = Cleaner()
        self.start()

    def tail(self, since: float = 0.0) -> str:
        """The last lines that are not noise, of those written after ``since`` (monotonic)."""
        return "\n".join(text for written, text in list(self._tail) if written > since)

    def run(self) -> None:
        """Until every holder of the pipe has closed it."""
        with os.fdopen(self._descriptor, "rb", buffering=0) as pipe:
            while data := pipe.read(1 << 16):
                self._take(data)
        self._take(b"\n" if self._rest else b"")

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        if not lines:
            return
        cleaned = self._cleaner.clean("\n".join(line.decode(errors="replace") for line in lines))
        self._log.write(f"{cleaned}\n".encode(errors="replace"))
        texts = [text for text in cleaned.split("\n") if not is_noise(text)]
        now = time.monotonic()
        self._tail.extend((now, text[:1000]) for text in texts[-TAIL_LINES:])
        if texts:
            self._show("".join(f"{text}\n" for text in texts))
