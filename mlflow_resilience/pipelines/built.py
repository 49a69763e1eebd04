"""What a builder gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Built:
    """Batched data sets, and what they are made of.

    ``validation`` is None where nothing was held out. ``classes`` are the names behind the labels 0, 1, ...; empty for
    arrays. ``fingerprint`` tells these data from others: give it back from a recipe's ``fingerprint(params)``.
    """

    train: Any
    validation: Any
    classes: tuple[str, ...]
    training_records: int
    validation_records: int
    fingerprint: str
