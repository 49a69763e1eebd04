"""What the ranks print, passed on by the process that started them."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

_LOOK_SECONDS = 0.2


def name_of(rank: int) -> str:
    """The file that a rank prints into."""
    return f"rank-{rank}.log"


@contextlib.contextmanager
def followed(paths: Sequence[Path]) -> Iterator[None]:
    """While inside, whole lines from these files come out here; what is new of the first as it is, of the others with
    the name of the file."""
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(paths, ended), name="rank-output", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _follow(paths: Sequence[Path], ended: threading.Event) -> None:
    read = dict.fromkeys(paths, 0)
    while True:
        last = ended.wait(_LOOK_SECONDS)
        for path in paths:
            read[path] += _pass_on(path, read[path], "" if path == paths[0] else f"({path.stem}) ")
        if last:
            return


def _pass_on(path: Path, begin: int, prefix: str) -> int:
    """Print the whole lines after ``begin``: how many bytes they were."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            new = file.read()
    except FileNotFoundError:
        return 0
    new = new[: new.rfind(b"\n") + 1]
    for line in new.decode(errors="replace").splitlines():
        print(f"{prefix}{line}", flush=True)
    sys.stdout.flush()
    return len(new)
