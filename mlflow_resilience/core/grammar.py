"""Texts as ``word:value,word:value:value``: what may stand in one is a table of words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlflow_resilience.errors import UsageError

Reader = Callable[[str], Any]  # raises ValueError


@dataclass(frozen=True)
class Word:
    """A word and its values: ``form`` shows it whole, ``readers`` read the values, ``least`` of which must be there."""

    form: str
    readers: tuple[Reader, ...] = ()
    least: int = 0

    def read(self, values: list[str]) -> tuple[Any, ...]:
        """The values; ValueError where they do not fit."""
        if not self.least <= len(values) <= len(self.readers):
            raise ValueError(self.form)
        return tuple(reader(value) for reader, value in zip(self.readers, values, strict=False))


def parse(text: str, words: Mapping[str, Word]) -> dict[str, tuple[Any, ...]]:
    """The words of ``text`` with their values, in their order. Raises UsageError, which says what may stand there."""
    found: dict[str, tuple[Any, ...]] = {}
    for part in text.split(","):
        name, *values = (each.strip() for each in part.split(":"))
        if name not in words:
            raise UsageError(f"{name!r} is not known here; known are {', '.join(each.form for each in words.values())}")
        if name in found:
            raise UsageError(f"{name} is there twice")
        try:
            found[name] = words[name].read(values)
        except ValueError:
            raise UsageError(f"{part.strip()!r} cannot be read: {words[name].form} is needed") from None
    return found


def whole(text: str) -> int:
    """A whole number, 1 or more."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def positive(text: str) -> float:
    """A number above 0."""
    value = float(text)
    if not 0.0 < value < math.inf:
        raise ValueError(text)
    return value


def share(text: str) -> float:
    """A number between 0 and 1, without the two."""
    value = float(text)
    if not 0.0 < value < 1.0:
        raise ValueError(text)
    return value


def one_of(*names: str) -> Reader:
    """One of these words."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(text)
        return text

    return read
