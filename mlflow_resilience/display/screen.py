"""Where lines and progress go: a terminal, a file or pipe, a program that reads JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any, Protocol

from mlflow_resilience.display.narrator import Progress, in_words
from mlflow_resilience.summary import clean

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import TaskID

_TOLD = ("resumed", "attempt", "fault", "decision", "attempt_ended", "event", "semantic_change", "job_ended")
QUIET_SECONDS = 60.0
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
    """Lines, as they come; how far the job is, when nothing else was said for ``QUIET_SECONDS``."""

    def __init__(self, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._said, self._step = clock(), -1

    def entry(self, entry: Mapping[str, Any]) -> None:
        pass

    def line(self, text: str) -> None:
        self.output(text + "\n")

    def output(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
        self._said = self._clock()

    def progress(self, progress: Progress) -> None:
        if self._clock() - self._said < QUIET_SECONDS or progress.step == self._step:
            return
        self._step = progress.step
        of = f" of {progress.total:,}" if progress.total else ""
        pace = f"; {progress.pace}" if progress.pace else ""
        self.line(f"{progress.where}, step {progress.step:,}{of}{pace}")

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

    def progress(self, progress: Progress) -> None:
        pass


class TerminalScreen:
    """Lines above; below them one progress bar for the whole job, with its pace, and what was told last."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Tasks
        from rich.text import Text

        class Bar(Tasks):
            last = ""

            def get_renderables(self) -> Iterable[RenderableType]:
                yield from super().get_renderables()
                if self.last:
                    yield Text(self.last, style="dim", no_wrap=True, overflow="ellipsis")

        self._console = Console()
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[pace]}", markup=False),
            TextColumn("{task.fields[metrics]}", markup=False),
        )
        self._bar = Bar(*columns, console=self._console, refresh_per_second=5, transient=True)
        self._task: TaskID = self._bar.add_task("start", total=None, pace="", metrics="")
        self._bar.start()

    def entry(self, entry: Mapping[str, Any]) -> None:
        pass

    def line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, style="bold", soft_wrap=True)

    def output(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, end="", soft_wrap=True)

    def progress(self, progress: Progress) -> None:
        self._bar.last = progress.last
        self._bar.update(
            self._task,
            description=progress.where,
            completed=progress.step,
            total=progress.total,
            pace=progress.pace,
            metrics=clean(in_words(progress.metrics)),
        )

    def close(self) -> None:
        self._bar.stop()
