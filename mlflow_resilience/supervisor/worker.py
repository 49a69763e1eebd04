"""One worker process, its group, and whatever it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence

from mlflow_resilience.supervisor import kernel


class Worker:
    """A running worker: the leader of a session of its own."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], *, stdin: int = subprocess.DEVNULL) -> None:
        reader, writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=writer,
                stderr=writer,
                env=environ,
                start_new_session=True,
                preexec_fn=kernel.end_with_parent,
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self.output = reader

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        """Whether it has; it is not reaped yet, so that its number still is its own."""
        if self._process.returncode is not None:
            return True
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, options) is not None

    def tell(self, line: str) -> bool:
        """Write to its standard input, where it was given one, and close it; whether it was there to read it."""
        pipe = self._process.stdin
        assert pipe is not None
        try:
            with pipe:
                pipe.write(line.encode())
        except BrokenPipeError:
            return False
        return True

    def ask_to_stop(self, trainer: int | None = None) -> None:
        """One SIGTERM, to the process that trains where another one started it (a shell)."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(trainer or self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """End the rest of its group and collect it: its exit code, or its signal as a negative number."""
        self.kill()
        return self._process.wait()


def reap_orphans(known: Collection[int]) -> None:
    """Collect adopted children that have ended."""
    for pid in _adopted(known):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def end_orphans(known: Collection[int], patience: float = 0.0) -> None:
    """End every child of ours that is not ``known``, and theirs: politely for so long, then at once."""
    deadline = time.monotonic() + patience
    if patience:
        _send(_adopted(known), signal.SIGTERM)
    while left := _adopted(known):
        late = time.monotonic() >= deadline
        if late:
            _send(left, signal.SIGKILL)
        if time.monotonic() > deadline + 5.0:
            return  # in an uninterruptible wait: nothing can end it
        reap_orphans(known)
        time.sleep(0.01)


def _adopted(known: Collection[int]) -> list[int]:
    return [pid for pid in kernel.children(os.getpid()) if pid not in known]


def _send(pids: Collection[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
