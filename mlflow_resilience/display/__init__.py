"""A job on the terminal: one progress display over all its attempts and processes."""

from __future__ import annotations

import sys

from mlflow_resilience.display.aside import Aside
from mlflow_resilience.display.screen import JsonScreen, PlainScreen, Screen, TerminalScreen
from mlflow_resilience.display.view import TerminalView

__all__ = ["Aside", "JsonScreen", "PlainScreen", "Screen", "TerminalScreen", "TerminalView", "for_terminal"]


def for_terminal(quiet: bool = False) -> TerminalView:
    """What fits where standard output goes: a progress bar on a terminal, plain lines elsewhere, JSON if quiet."""
    if quiet:
        return TerminalView(JsonScreen(sys.stdout))
    return TerminalView(TerminalScreen() if sys.stdout.isatty() else PlainScreen(sys.stdout))
