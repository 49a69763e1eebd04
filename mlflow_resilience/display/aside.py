"""What is said beside Keras's own progress, where no supervisor shows the job: in a script, or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import IO, Any

from mlflow_resilience.display.narrator import Narrator

#: Keras shows the epochs itself, and what only a restart's end tells is none of its business.
_TOLD = ("attempt", "decision", "fault", "resumed", "semantic_change", "reproducible")


class Aside:
    """A line for each fault's decision and for what it changes. ``below_a_bar``: Keras's progress bar may stand in the
    line, so that ours begins a new one."""

    def __init__(self, *, below_a_bar: bool, stream: IO[str] | None = None) -> None:
        self._narrator, self._stream = Narrator(), stream
        self._before = "\n" if below_a_bar else ""

    def __call__(self, entry: Mapping[str, Any]) -> None:
        if entry.get("kind") not in _TOLD:
            return
        lines = self._narrator.lines(entry)
        if lines:
            stream = self._stream or sys.stdout  # of a notebook it is another one in each cell
            stream.write(self._before + "".join(f"{line}\n" for line in lines))
            stream.flush()
