"""A save that does not end: it is written beside the training, whose heartbeat says nothing of it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from mlflow_resilience.supervisor.hang import Limits

_WRITING = ".writing-"  # what a checkpoint is called until it is whole
_ASLEEP_SECONDS = 5.0  # between two looks: we were not running ourselves


class SaveWatch:
    """Measures for how long a checkpoint has been in the making, over all workers of a job; times are monotonic."""

    def __init__(self, limits: Limits, checkpoints: Path) -> None:
        self._limits, self._folder = limits, checkpoints
        self._since: dict[tuple[str, int], float] = {}  # by path and inode: the same step may be saved again
        self._left: set[tuple[str, int]] = set()  # by an earlier worker
        self._longest: float | None = None
        self._looked = 0.0

    def begin(self, now: float) -> None:
        """A new worker starts: what an earlier one left is not being written any more."""
        self._since, self._looked, self._left = {}, now, _writing(self._folder)

    def see(self, now: float) -> float | None:
        """The seconds for which a save has been under way, when they are a hang."""
        asleep = now - self._looked if now - self._looked > _ASLEEP_SECONDS else 0.0
        self._looked = now
        found = _writing(self._folder) - self._left
        for one in self._since.keys() - found:
            self._longest = max(self._longest or 0.0, now - self._since[one])
        self._since = {one: self._since.get(one, now - asleep) + asleep for one in found}
        lasting = max((now - since for since in self._since.values()), default=0.0)
        limit = self._limits.of("checkpoint", self._longest)
        return lasting if limit is not None and lasting > limit else None


def _writing(folder: Path) -> set[tuple[str, int]]:
    """All that is being written, here and one folder down; what vanishes while we look is not."""
    inner = [path for path in _inside(folder) if not path.name.startswith(_WRITING)]
    found = set()
    for path in [*_inside(folder), *(each for one in inner for each in _inside(one))]:
        with contextlib.suppress(OSError):
            if path.name.startswith(_WRITING):
                found.add((os.fspath(path), path.stat().st_ino))
    return found


def _inside(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in os.listdir(folder)]
    except OSError:  # it is gone, or is a file
        return []
