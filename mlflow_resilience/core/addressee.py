"""Whom a policy notifies: a function, a command or a URL, told apart and checked."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from mlflow_resilience.errors import UsageError

Addressee = Callable[[dict[str, Any]], object] | str | Sequence[str]

_NEEDED = "a function, a command, or a URL that begins with http:// or https:// is needed"


def is_url(notify: object) -> bool:
    """Whether it is a URL that gets JSON by POST."""
    return isinstance(notify, str) and notify.lower().startswith(("http://", "https://"))


def command_of(notify: str | Sequence[str]) -> list[str]:
    """The program and its arguments; a text is split as a shell would, and no shell ever sees it."""
    return shlex.split(notify) if isinstance(notify, str) else [str(part) for part in notify]


def check(notify: object) -> None:
    """Raises UsageError for what can notify nobody. A secret in it is not repeated."""
    if notify is None or callable(notify):
        return
    if is_url(notify):
        if not urlsplit(str(notify)).hostname:
            raise UsageError("notify: the URL names no host")
        return
    if not isinstance(notify, str | list | tuple):
        raise UsageError(f"notify: {_NEEDED}, not {type(notify).__name__}")
    try:
        command = command_of(notify)
    except ValueError as error:
        raise UsageError(f"notify: the command cannot be read ({error})") from None
    if not command or shutil.which(command[0]) is None:
        program = f"there is no program {command[0]!r}: " if command else ""
        raise UsageError(f"notify: {program}{_NEEDED}")
