"""Keeps checkpoints: when to save, what becomes a logged model, what is deleted."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow_resilience.core.fault import Position
from mlflow_resilience.core.judge import Journal
from mlflow_resilience.core.schedule import Kept, Moment, Retention, Schedule
from mlflow_resilience.training import checkpoint
from mlflow_resilience.training.checkpoint import Checkpoint
from mlflow_resilience.training.export import Exporter
from mlflow_resilience.training.saver import Request, Saver
from mlflow_resilience.training.state import TrainingState


class Keeper:
    """The checkpoints of one `fit`. ``local`` is the schedule of the disk, ``logged`` that of logged models."""

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
    ) -> None:
        self._folder, self._models, self._journal = folder, models, journal
        self._local, self._logged, self._retention = local, logged, retention
        self._exporter: Exporter | None = None
        self._failed = failed
        self._saver = Saver(folder, self._saved, self._not_saved)
        self._at = {"local": (Position(), time.monotonic()), "logged": (Position(), time.monotonic())}
        self._cost: dict[str, float | None] = {"local": None, "logged": None}
        self._logged_models: list[str] = []

    @property
    def has_any(self) -> bool:
        """Whether there is a whole checkpoint, or one under way."""
        return self._saver.busy or bool(checkpoint.complete(self._folder))

    def begin(self, exporter: Exporter | None) -> None:
        """Training is about to start; without an exporter no logged models are made."""
        self._exporter = exporter

    def restart(self, position: Position) -> None:
        """An attempt starts at ``position``: what is saved there is saved already."""
        now = time.monotonic()
        self._at = {tier: (position, now) for tier in self._at}

    def due(self, position: Position, *, epoch_end: bool) -> bool:
        """Whether a snapshot is to be taken at this boundary. While a write is under way, none is."""
        if self._saver.busy:
            return False
        return self._is_due("local", position, epoch_end) or self._is_due("logged", position, epoch_end)

    def save(
        self, capture: Callable[[], TrainingState], attempt: int, *, epoch_end: bool, logs: dict[str, float]
    ) -> None:
        """Take a snapshot now, and write it in the background."""
        started = time.perf_counter()
        state = capture()
        position = Position(**state.meta["position"])
        publish = self._is_due("logged", position, epoch_end)
        state.meta.update(attempt=attempt, metrics=logs)
        self._saver.save(Request(state=state, publish=publish, stall=time.perf_counter() - started))
        for tier in ("local", "logged") if publish else ("local",):
            self._at[tier] = (position, time.monotonic())

    def save_now(self, capture: Callable[[], TrainingState], attempt: int) -> None:
        """Save the state at this boundary unless that is done, and log it; returns when it is on disk."""
        self._saver.wait()
        state = capture()
        state.meta.update(attempt=attempt, metrics=state.meta["logs"])
        self._saver.save(Request(state=state, publish=True, stall=0.0))
        self._saver.wait()

    def wait(self) -> None:
        """Wait for the write under way."""
        self._saver.wait()

    def close(self) -> None:
        self._saver.close()

    def newest(self) -> TrainingState | None:
        """The newest intact checkpoint. Damaged ones are set aside, and that is said."""
        for path in reversed(checkpoint.complete(self._folder)):
            try:
                return checkpoint.read(path)
            except checkpoint.CheckpointError as error:
                self._set_aside(path, str(error))
        return None

    def set_newest_aside(self) -> None:
        """The newest checkpoint cannot be used, whatever its digest says."""
        paths = checkpoint.complete(self._folder)
        if paths:
            self._set_aside(paths[-1], "it could not be restored")

    def _set_aside(self, path: Path, why: str) -> None:
        aside = checkpoint.set_aside(path)
        text = f"checkpoint {path.name} set aside as {aside.name}: {why}"
        self._journal.append("event", name="checkpoint_unreadable", text=text, data={"path": str(aside)})

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

    def _saved(self, request: Request, written: Checkpoint, seconds: float) -> None:
        # What the write takes from the training on a shared processor counts as well as the stall.
        self._cost["local"] = request.stall + seconds
        meta = request.state.meta
        self._journal.append(
            "checkpoint",
            durable=True,
            attempt=meta["attempt"],
            step=written.position.global_step,
            epoch=written.position.epoch,
            digest=written.digest,
            path=str(written.path),
            bytes=written.bytes,
            stall_ms=round(request.stall * 1000, 3),
            write_ms=round(seconds * 1000, 3),
        )
        if request.publish and self._exporter is not None:
            self._publish(self._exporter, request, written)
        self._tidy(written)

    def _publish(self, exporter: Exporter, request: Request, written: Checkpoint) -> None:
        started = time.perf_counter()
        local_id = uuid.uuid4().hex[:16]
        folder = self._models / local_id
        try:
            exporter.write(folder, request.state.tensors, written.path)
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._failed(error, written.position)
            return
        meta = request.state.meta
        self._journal.append(
            "model",
            durable=True,
            local_id=local_id,
            name="checkpoint",
            attempt=meta["attempt"],
            step=written.position.global_step,
            epoch=written.position.epoch,
            digest=written.digest,
            folder=str(folder),
            tags=exporter.tags,
            metrics=meta["metrics"],
            delete_after_upload=True,
        )
        self._logged_models.append(local_id)
        while len(self._logged_models) > self._retention.last:
            self._journal.append("model_superseded", local_id=self._logged_models.pop(0))
        self._cost["logged"] = time.perf_counter() - started

    def _not_saved(self, request: Request, error: Exception) -> None:
        self._failed(error, Position(**request.state.meta["position"]))

    def _tidy(self, newest: Checkpoint) -> None:
        kept = [
            Kept(name=str(path), position=Position(global_step=int(path.name.rpartition("-")[2])), score=None)
            for path in checkpoint.complete(self._folder)
        ]
        for each in self._retention.superfluous(kept):
            if each.name != str(newest.path):
                shutil.rmtree(each.name, ignore_errors=True)
