"""What a fault on purpose is given: the batch of its step, and the job that it strikes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Place:
    """The job's ``folder`` and that of its ``checkpoints``. ``settle()`` waits for the checkpoint that is being
    written; ``read(path)`` reads one, and raises CheckpointError where it is damaged."""

    folder: Path
    checkpoints: Path
    settle: Callable[[], object]
    read: Callable[[Path], object]


#: Takes the batch and gives the one to train instead; or does what else the fault does.
Strike = Callable[[Any, Place], Any]
