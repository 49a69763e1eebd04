"""The supervisor's view on a terminal: it never blocks the supervisor, however slow the terminal is."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

from mlflow_resilience.display.narrator import Narrator
from mlflow_resilience.display.screen import Screen

WAITING_CHARACTERS = 1 << 20
_CLOSE_SECONDS = 2.0

_Item = tuple[Literal["entry", "beat", "output", "say", "end"], Any]


class TerminalView:
    """Takes in at once, and shows in a thread of its own. The worker's output that a slow terminal cannot take is left
    out and counted: it is in the log anyway."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._narrator = screen, Narrator()
        self._items: deque[_Item] = deque()
        self._waiting = self._left_out = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._show, name="terminal", daemon=True)
        self._thread.start()

    def entry(self, entry: Mapping[str, Any]) -> None:
        self._put("entry", entry)

    def beat(self, phase: str, step: int) -> None:
        self._put("beat", (phase, step))

    def say(self, text: str) -> None:
        self._put("say", text)

    def output(self, text: str) -> None:
        with self._changed:
            if self._waiting > WAITING_CHARACTERS:
                self._left_out += text.count("\n")
                return
            self._waiting += len(text)
        self._put("output", text)

    def close(self) -> None:
        """Show what is left, unless the terminal takes nothing."""
        self._put("end", None)
        self._thread.join(_CLOSE_SECONDS)

    def _put(self, kind: Literal["entry", "beat", "output", "say", "end"], value: Any) -> None:
        with self._changed:
            self._items.append((kind, value))
            self._changed.notify()

    def _show(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items)
                kind, value = self._items.popleft()
                if kind == "output":
                    self._waiting -= len(value)
                left_out, self._left_out = (self._left_out, 0) if not self._waiting else (0, self._left_out)
            try:
                if left_out:
                    self._screen.line(f"({left_out} lines of output left out here; they are in the log)")
                if kind == "end":
                    self._screen.close()
                    return
                self._show_one(kind, value)
            except (OSError, ValueError):  # a closed pipe or terminal: the job goes on without
                time.sleep(0.01)
                if kind == "end":
                    return

    def _show_one(self, kind: str, value: Any) -> None:
        if kind == "output":
            self._screen.output(value)
        elif kind == "say":
            self._screen.line(value)
        elif kind == "entry":
            self._screen.entry(value)
            for line in self._narrator.lines(value):
                self._screen.line(line)
            self._screen.progress(self._narrator.progress)
        else:
            phase, step = value
            self._narrator.at(step, phase)
            self._screen.progress(self._narrator.progress)
