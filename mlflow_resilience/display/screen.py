"""Where lines and progress go: a terminal, a file or pipe, a program that reads JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, Protocol

from mlflow_resilience.display.narrator import Progress, in_words

if TYPE_CHECKING:
    from rich.progress import TaskID

_TOLD = ("resumed", "attempt", "fault", "decision", "attempt_ended", "event", "semantic_change", "job_ended")
_LEFT_OUT = ("pid", "memory", "settings", "rung")


class Screen(Protocol):
    """Called from one thread only; may block."""

    def entry(self, entry: Mapping[str, Any]) -> None:
        """A journal entry, for those that pass on facts instead of words."""

    def line(self, text: str) -> None:
        """One line of ours."""

    def output(self, text: str) -> None:
        """Whole lines of the worker's."""

    def progress(self, progress: Progress) -> None:
        """How far the job is."""

    def close(self) -> None:
        """Nothing more will come."""


class PlainScreen:
    """Lines, as they come."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def entry(self, entry: Mapping[str, Any]) -> None:
        pass

    def line(self, text: str) -> None:
        self.output(text + "\n")

    def output(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def progress(self, progress: Progress) -> None:
        pass

    def close(self) -> None:
        pass


class JsonScreen(PlainScreen):
    """One JSON object a line for each thing that matters, and nothing else."""

    def entry(self, entry: Mapping[str, Any]) -> None:
        if entry.get("kind") in _TOLD:
            told = {key: value for key, value in entry.items() if key not in _LEFT_OUT}
            if isinstance(fault := told.get("fault"), dict):
                told["fault"] = {key: fault.get(key) for key in ("exception", "message", "phase", "position")}
            super().output(json.dumps(told, default=str) + "\n")

    def output(self, text: str) -> None:
        pass


class TerminalScreen:
    """Lines above, and one progress bar for the whole job below."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._console = Console()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[metrics]}"),
        )
        self._bar = Bar(*columns, console=self._console, refresh_per_second=5, transient=True)
        self._task: TaskID = self._bar.add_task("start", total=None, metrics="")
        self._bar.start()

    def entry(self, entry: Mapping[str, Any]) -> None:
        pass

    def line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, style="bold", soft_wrap=True)

    def output(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, end="", soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        self._bar.update(
            self._task,
            description=progress.where,
            completed=progress.step,
            total=progress.total,
            metrics=in_words(progress.metrics),
        )

    def close(self) -> None:
        self._bar.stop()
