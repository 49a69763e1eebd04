"""Which code an exception came out of, from the text of its traceback."""

from __future__ import annotations

import re

_FRAME = re.compile(r'^\s*(?:File "?|\[?)(?P<path>[^"\n:]+?\.py)\b', re.MULTILINE)
_INSTALLED = re.compile(r"(?:site|dist)-packages[/\\](\w+)")
_STANDARD = re.compile(r"lib[/\\]python\d")


def packages(traceback: str) -> list[str]:
    """The top package of each frame, the innermost first; ``python`` for the standard library, ``user`` for code that
    is not installed."""
    return [_package(path) for path in reversed(_FRAME.findall(traceback))]


def _package(path: str) -> str:
    if installed := _INSTALLED.search(path):
        return installed[1]
    return "python" if _STANDARD.search(path) or path.startswith("<frozen") else "user"
