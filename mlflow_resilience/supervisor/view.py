"""What the supervisor tells whoever watches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class View(Protocol):
    """Shows a job while it runs. Called from two threads; never to block for long."""

    def entry(self, entry: Mapping[str, Any]) -> None:
        """The next entry of the journal."""

    def beat(self, phase: str, step: int) -> None:
        """How far the worker is now."""

    def output(self, text: str) -> None:
        """Whole lines that the worker printed, less TensorFlow's start-up noise."""

    def say(self, text: str) -> None:
        """One line from the supervisor itself."""


class NoView:
    """Shows nothing."""

    def entry(self, entry: Mapping[str, Any]) -> None:
        pass

    def beat(self, phase: str, step: int) -> None:
        pass

    def output(self, text: str) -> None:
        pass

    def say(self, text: str) -> None:
        pass
