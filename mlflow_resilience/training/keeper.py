"""Keeps checkpoints: when to save, what becomes a logged model, what is deleted."""

from __future__ import annotations

import contextlib
import errno
import queue
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from mlflow_resilience.core.fault import Position
from mlflow_resilience.core.judge import Journal
from mlflow_resilience.core.schedule import Kept, Moment, Retention, Schedule
from mlflow_resilience.training import checkpoint
from mlflow_resilience.training.checkpoint import Checkpoint
from mlflow_resilience.training.export import Exporter
from mlflow_resilience.training.saver import Cost, Request, Saver
from mlflow_resilience.training.shelf import Shelf
from mlflow_resilience.training.state import TrainingState

#: A write may take such a share of the time since the last one, and no more seconds than that: until it is on disk, a
#: death costs the steps before it.
_SPREAD, _LONGEST = 0.5, 2.0


class Keeper:
    """The checkpoints of one `fit`. ``local`` is the schedule of the disk, ``logged`` that of logged models.

    ``failed(error, position)`` is told of writes that failed, on the thread that trains. ``earlier`` are the job's
    journal entries so far: models that an earlier process logged count for what is to be kept. ``changes()`` are the
    changes in the result so far: they go with the state, whoever goes on from it.
    """

    def __init__(
        self,
        folder: Path,
        models: Path,
        journal: Journal,
        *,
        local: Schedule,
        logged: Schedule,
        retention: Retention,
        failed: Callable[[Exception, Position], None],
        earlier: Iterable[Mapping[str, Any]] = (),
        changes: Callable[[], list[list[Any]]] = list,
    ) -> None:
        self._folder, self._models, self._journal = folder, models, journal
        self._local, self._logged, self._retention = local, logged, retention
        self._exporter: Exporter | None = None
        self._failed = failed
        self._changes = changes
        self._failures: queue.SimpleQueue[tuple[Exception, Position]] = queue.SimpleQueue()
        self._saver = Saver(folder, self._saved, self._not_saved)
        self._shelf = Shelf(folder, self._say)
        self._at = {"local": (Position(), time.monotonic()), "logged": (Position(), time.monotonic())}
        self._last_save: float | None = None
        self._cost: dict[str, float | None] = {"local": None, "logged": None}
        self._logged_models = logged_models(earlier)

    @property
    def has_any(self) -> bool:
        """Whether there is a whole checkpoint, or one under way."""
        return self._saver.busy or self._shelf.has_any

    def begin(self, exporter: Exporter | None, exempt: frozenset[str] = frozenset()) -> None:
        """Training is about to start; without an exporter no logged models are made.

        A state is refused when variables of the model, but for ``exempt``, hold values that are not finite.
        """
        self._exporter = exporter
        self._saver.exempt = exempt

    def restart(self, position: Position) -> None:
        """An attempt starts at ``position``: what is saved there is saved already."""
        now = time.monotonic()
        self._at = {tier: (position, now) for tier in self._at}
        self._last_save = None

    def due(self, position: Position, *, epoch_end: bool) -> bool:
        """Whether a snapshot is to be taken at this boundary. While a write is under way, none is."""
        self._tell_failures()
        due = self._is_due("local", position, epoch_end) or self._is_due("logged", position, epoch_end)
        if due:
            self._saver.hurry()
        return due and not self._saver.busy

    def save(
        self, capture: Callable[[], TrainingState], attempt: int, *, epoch_end: bool, logs: dict[str, float]
    ) -> None:
        """Take a snapshot now, and write it in the background."""
        started = time.perf_counter()
        state = capture()
        position = Position(**state.meta["position"])
        publish = self._is_due("logged", position, epoch_end)
        state.meta.update(attempt=attempt, metrics=logs, changes=self._changes())
        stall = time.perf_counter() - started
        self._saver.save(Request(state=state, publish=publish, stall=stall, time=self._time_to_write()))
        for tier in ("local", "logged") if publish else ("local",):
            self._at[tier] = (position, time.monotonic())

    def save_now(self, capture: Callable[[], TrainingState], attempt: int) -> None:
        """Save the state at this boundary, and log it; returns when it is on disk."""
        self._saver.wait()
        state = capture()
        state.meta.update(attempt=attempt, metrics=state.meta["logs"], changes=self._changes())
        self._saver.save(Request(state=state, publish=True, stall=0.0))
        self.wait()

    def wait(self) -> None:
        """Wait for the write under way."""
        self._saver.wait()
        self._tell_failures()

    def make_room(self) -> None:
        """The disk is full: keep the newest checkpoint only."""
        self._shelf.make_room()

    def close(self) -> None:
        """Wait for the last write; no more are taken."""
        self._saver.close()
        self._tell_failures()

    def newest(self) -> TrainingState | None:
        """The newest intact checkpoint. Damaged ones are set aside, and that is said."""
        return self._shelf.newest()

    def set_newest_aside(self) -> None:
        """The newest checkpoint cannot be used, whatever its digest says."""
        self._shelf.set_newest_aside()

    def restoring(self, position: Position) -> AbstractContextManager[None]:
        """Around a restore: one that ends the process twice is not tried a third time."""
        name = checkpoint.name_of(position)
        return self._shelf.handling(name) if (self._folder / name).is_dir() else contextlib.nullcontext()

    def warn_of_space(self, size: int) -> None:
        """Say so when there is no room for two checkpoints of ``size`` bytes."""
        self._shelf.warn_of_space(size)

    def _say(self, name: str, text: str, data: dict[str, object]) -> None:
        self._journal.append("event", name=name, text=text, data=data)

    def _tell_failures(self) -> None:
        while True:
            try:
                error, position = self._failures.get_nowait()
            except queue.Empty:
                return
            self._failed(error, position)

    def _time_to_write(self) -> float:
        """Seconds over which a write may be spread: the next is expected after as long as since the last."""
        last, self._last_save = self._last_save, time.monotonic()
        return 0.0 if last is None else min(_SPREAD * (self._last_save - last), _LONGEST)

    def _is_due(self, tier: str, position: Position, epoch_end: bool) -> bool:
        if tier == "logged" and self._exporter is None:
            return False
        saved, at = self._at[tier]
        moment = Moment(
            position=position,
            saved=saved,
            seconds=time.monotonic() - at,
            cost=self._cost[tier],
            epoch_end=epoch_end,
        )
        return self._local.due(moment) if tier == "local" else self._logged.due_for_logging(moment)

    # -- on the saver's thread ---------------------------------------------------------------------------------------

    def _saved(self, request: Request, written: Checkpoint, cost: Cost) -> None:
        # What the write takes from the training on a shared processor counts as well as the stall.
        self._cost["local"] = request.stall + cost.processor
        self._journal.append(
            "checkpoint",
            durable=True,
            attempt=request.state.meta["attempt"],
            step=written.position.global_step,
            epoch=written.position.epoch,
            step_in_epoch=written.position.step,
            digest=written.digest,
            path=str(written.path),
            bytes=written.bytes,
            stall_ms=round(request.stall * 1000, 3),
            write_ms=round(cost.wall * 1000, 3),
        )
        if request.publish and self._exporter is not None:
            self._publish(self._exporter, request, written)
        self._shelf.tidy(self._retention, written.path)

    def _publish(self, exporter: Exporter, request: Request, written: Checkpoint) -> None:
        started = time.perf_counter()
        local_id = uuid.uuid4().hex[:16]
        folder = self._models / local_id
        try:
            exporter.write(folder, request.state.tensors, written.path)
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._not_saved(request, error)
            return
        meta = request.state.meta
        entry = {
            "local_id": local_id,
            "name": "checkpoint",
            "attempt": meta["attempt"],
            "step": written.position.global_step,
            "epoch": written.position.epoch,
            "digest": written.digest,
            "folder": str(folder),
            "tags": exporter.tags,
            "metrics": meta["metrics"],
            "delete_after_upload": True,
        }
        self._journal.append("model", durable=True, **entry)
        kept = _kept(entry)
        self._logged_models.append(Kept(name=local_id, position=written.position, score=kept.score))
        for each in self._retention.superfluous(self._logged_models):
            self._logged_models.remove(each)
            self._journal.append("model_superseded", local_id=each.name)
        self._cost["logged"] = time.perf_counter() - started

    def _not_saved(self, request: Request, error: Exception) -> None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            self._shelf.make_room()
        self._failures.put((error, Position(**request.state.meta["position"])))


def logged_models(entries: Iterable[Mapping[str, Any]]) -> list[Kept]:
    """The checkpoints that the journal's entries made logged models of, and have not superseded."""
    found: dict[str, Kept] = {}
    for entry in entries:
        if entry.get("kind") == "model" and entry.get("name") == "checkpoint":
            found[entry["local_id"]] = _kept(entry)
        elif entry.get("kind") == "model_superseded":
            found.pop(entry["local_id"], None)
    return list(found.values())


def _kept(entry: Mapping[str, Any]) -> Kept:
    # The loss of an epoch under way compares with no other; only an epoch's end has one of the validation.
    metrics = entry.get("metrics") or {}
    position = Position(global_step=int(entry["step"]), epoch=int(entry["epoch"]))
    return Kept(name=str(entry["local_id"]), position=position, score=metrics.get("val_loss"))
