"""What the processes of a group tell one another, as small files in a folder of the job that all of them see."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow_resilience.spool import atomic

#: The exit code of a process that has left its fault in a file. The codes of a worker keep their meaning.
BROKEN = 71

#: The notice that the chief has come to its end.
DONE = "done"

FOLDER, RANK, SIZE = "MLFLOW_RESILIENCE_GROUP", "MLFLOW_RESILIENCE_RANK", "MLFLOW_RESILIENCE_RANKS"


@dataclass(frozen=True)
class Notices:
    """The notices of one group: from its start to its end, which a restart does not outlive."""

    folder: Path

    def tell(self, name: str, **facts: Any) -> None:
        """Leave a notice: whole or not at all."""
        atomic.write_json(self.folder / f"{name}.json", {"time": time.time(), **facts})

    def told(self, name: str) -> dict[str, Any] | None:
        """A notice, if it is there."""
        found = atomic.read_json(self.folder / f"{name}.json")
        return found if isinstance(found, dict) else None

    def of_rank(self, rank: int, name: str) -> dict[str, Any] | None:
        """A notice of one of the ranks."""
        return self.told(f"rank-{rank}-{name}")

    def tell_of_rank(self, rank: int, name: str, **facts: Any) -> None:
        """Leave a notice of one of the ranks."""
        self.tell(f"rank-{rank}-{name}", rank=rank, host=socket.gethostname(), **facts)

    def all_ranks(self, name: str, size: int) -> Iterator[dict[str, Any]]:
        """This notice of each rank that has left it."""
        for rank in range(size):
            if (found := self.of_rank(rank, name)) is not None:
                yield found


def from_environment() -> tuple[Notices, int, int]:
    """The group that this process was started for: its notices, our rank and how many there are."""
    return Notices(Path(os.environ[FOLDER])), int(os.environ[RANK]), int(os.environ[SIZE])
