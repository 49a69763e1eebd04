"""A warm spare: a process that has done the longest part of a start and waits, to be the worker when one is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mlflow_resilience.supervisor.worker import Worker


class Spare:
    """At most one process of ``command``, kept ready.

    It learns by a line on its standard input for which attempt it is wanted; the end of that input ends it. One that
    ended by itself is not replaced: whatever ended it would end the next one too.
    """

    def __init__(self, command: Sequence[str], environ: Callable[[], Mapping[str, str]]) -> None:
        self._command, self._environ = command, environ
        self._process: Worker | None = None
        self._is_of_use = bool(command)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def keep(self) -> None:
        """See to it that there is one, where it is of use."""
        if self._process is not None and self._process.has_ended():
            self.end()
            self._is_of_use = False
        if self._is_of_use and self._process is None:
            try:
                self._process = Worker(self._command, self._environ(), stdin=subprocess.PIPE)
            except OSError:
                self._is_of_use = False

    def take(self, attempt: int) -> Worker | None:
        """The spare as the worker of an attempt, if there is one that still answers."""
        spare, self._process = self._process, None
        if spare is None:
            return None
        if spare.has_ended() or not spare.tell(f"{attempt}\n"):
            _discard(spare)
            return None
        return spare

    def give_up(self) -> None:
        """Have none, now and later: the job has ended, or its memory is needed."""
        self._is_of_use = False
        self.end()

    def end(self) -> None:
        """End it, if there is one."""
        spare, self._process = self._process, None
        if spare is not None:
            _discard(spare)

    def resident_mb(self) -> float | None:
        """The memory that it holds, in MB; None without one."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return None
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _discard(spare: Worker) -> None:
    spare.reap()
    os.close(spare.output)
