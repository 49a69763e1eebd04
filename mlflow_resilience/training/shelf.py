"""The checkpoints of one job on the local disk: which can be used, which are set aside, how much room there is."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from mlflow_resilience.core.schedule import Kept, Retention
from mlflow_resilience.errors import CheckpointError
from mlflow_resilience.spool import atomic
from mlflow_resilience.training import checkpoint
from mlflow_resilience.training.state import TrainingState

_TRIES = "restores.json"  # how often each checkpoint was being read or restored when its process ended
_MOST_TRIES = 2


class Shelf:
    """``say(name, text, data)`` tells of anything worth a line."""

    def __init__(self, folder: Path, say: Callable[[str, str, dict[str, object]], None]) -> None:
        self._folder, self._say = folder, say
        self._known: dict[Path, Kept] = {}

    @property
    def has_any(self) -> bool:
        return bool(checkpoint.complete(self._folder))

    def newest(self) -> TrainingState | None:
        """The newest intact checkpoint. Damaged ones are set aside, and that is said."""
        checkpoint.recover(self._folder)
        for path in reversed(checkpoint.complete(self._folder)):
            tries = self._tries().get(path.name, 0)
            if tries >= _MOST_TRIES:
                self._set_aside(path, f"its process ended {tries} times while it was being restored")
                continue
            try:
                with self.handling(path.name):
                    return checkpoint.read(path)
            except CheckpointError as error:
                self._set_aside(path, str(error))
        return None

    def set_newest_aside(self) -> None:
        """The newest checkpoint cannot be used, whatever its digest says."""
        paths = checkpoint.complete(self._folder)
        if paths:
            self._set_aside(paths[-1], "it could not be restored")

    @contextlib.contextmanager
    def handling(self, name: str) -> Iterator[None]:
        """Should the process end in here, the next one will know that this checkpoint was in its hands."""
        before = self._tries()
        self._note({**before, name: before.get(name, 0) + 1})
        try:
            yield
        finally:
            self._note(before)

    def tidy(self, retention: Retention, newest: Path) -> None:
        """Delete what is not to be kept."""
        for each in retention.superfluous([self._kept(path) for path in checkpoint.complete(self._folder)]):
            if each.name != str(newest):
                shutil.rmtree(each.name, ignore_errors=True)
                self._known.pop(Path(each.name), None)

    def make_room(self) -> None:
        """The disk is full: keep the newest checkpoint only."""
        checkpoint.recover(self._folder)
        for path in [*checkpoint.complete(self._folder)[:-1], *self._folder.glob("damaged-*")]:
            shutil.rmtree(path, ignore_errors=True)

    def warn_of_space(self, size: int) -> None:
        """Say so when there is no room for two checkpoints of ``size`` bytes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._folder).free
        if free < 2 * size:
            text = f"{free / 1e6:.0f} MB are free for checkpoints, and two of them need {2 * size / 1e6:.0f} MB"
            self._say("disk_space", text, {"free_bytes": free, "checkpoint_bytes": size})

    def _kept(self, path: Path) -> Kept:
        if path not in self._known:
            try:
                position, metrics = checkpoint.summary(path)
                score = metrics.get("val_loss", metrics.get("loss")) if position.step == 0 else None
                self._known[path] = Kept(name=str(path), position=position, score=score)
            except (CheckpointError, OSError):
                return Kept(name=str(path), position=checkpoint.named_position(path), intact=False)
        return self._known[path]

    def _note(self, tries: dict[str, int]) -> None:
        with contextlib.suppress(OSError):  # a full disk does not keep a job from resuming
            atomic.write_json(self._folder / _TRIES, tries)

    def _tries(self) -> dict[str, int]:
        found = atomic.read_json(self._folder / _TRIES)
        return found if isinstance(found, dict) else {}

    def _set_aside(self, path: Path, why: str) -> None:
        aside = checkpoint.set_aside(path)
        self._known.pop(path, None)
        self._say(
            "checkpoint_unreadable", f"checkpoint {path.name} set aside as {aside.name}: {why}", {"path": str(aside)}
        )
