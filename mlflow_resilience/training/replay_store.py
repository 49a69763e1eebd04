"""Keeps what a failed step was: its batch, and the checkpoint that training had last gone through, for a replay.

Opt-in and bounded: the batch is held for as long as its step lasts, and what is stored of a whole job stays below a
limit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from mlflow_resilience.core.judge import Journal
from mlflow_resilience.training import checkpoint, tensor_file
from mlflow_resilience.training.packing import NotStorable, pack

FORMAT = 1
META, BATCH, CHECKPOINT = "replay.json", "batch.safetensors", "checkpoint"
_OF_A_STEP = ("step", "trace")


class ReplayStore:
    """A listener to the journal: each fault in a step becomes a folder below ``folder``, and an artifact."""

    def __init__(self, folder: Path, checkpoints: Path, journal: Journal, limit: int) -> None:
        self._folder, self._checkpoints, self._journal, self._limit = folder, checkpoints, journal, limit
        self._step = 0
        self._batch: Any = None

    def watch(self, before: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
        """``before`` gives the batch to train at a step; what it gives is held until the next one."""

        def watched(step: int, batch: Any) -> Any:
            self._step, self._batch = step, batch
            self._batch = before(step, batch)
            return self._batch

        return watched

    def __call__(self, entry: dict[str, Any]) -> None:
        """One more entry of the journal."""
        if entry["kind"] != "fault" or self._batch is None:
            return
        fault = entry["fault"]
        step = ((fault.get("position") or {}).get("global_step") or 0) + 1
        if fault.get("phase") not in _OF_A_STEP or step != self._step:
            return
        name = f"fault-{entry['number']:02d}"
        try:
            self._store(self._folder / name, entry, step)
        except (NotStorable, OSError, KeyError) as error:
            shutil.rmtree(self._folder / name, ignore_errors=True)
            self._say(f"fault {entry['number']} cannot be kept for a replay: {error}", step)
        else:
            path = str(self._folder / name)
            self._journal.append("artifact", run="job", path=path, folder=f"resilience/replay/{name}")

    def _store(self, folder: Path, entry: dict[str, Any], step: int) -> None:
        arrays: dict[str, Any] = {}
        batch = pack(tf.nest.map_structure(_array, self._batch), arrays, "batch")
        room = self._limit - _size(self._folder)
        needed = sum(array.nbytes for array in arrays.values())
        if needed > room:
            raise NotStorable(f"its batch has {needed} bytes, and of replay's limit {max(room, 0)} are left")
        folder.mkdir(parents=True)
        (folder / BATCH).write_bytes(b"".join(tensor_file.parts(arrays)))
        meta = {"format": FORMAT, "fault": entry["number"], "step": step, "batch": batch}
        meta.update({key: entry["fault"].get(key) for key in ("exception", "message", "phase")})
        meta.update(failure_class=entry["failure_class"], checkpoint=self._keep_checkpoint(folder, step, room - needed))
        (folder / META).write_text(json.dumps(meta))

    def _keep_checkpoint(self, folder: Path, step: int, room: int) -> dict[str, Any] | None:
        """The newest before the step, with its files where they fit; None where training had begun without one."""
        found = [
            path
            for path in checkpoint.complete(self._checkpoints)
            if checkpoint.named_position(path).global_step < step
        ]
        if not found:
            return None
        stored = _size(found[-1]) <= room
        if stored:
            shutil.copytree(found[-1], folder / CHECKPOINT, copy_function=checkpoint.link_or_copy)
        return {"step": checkpoint.named_position(found[-1]).global_step, "stored": stored}

    def _say(self, text: str, step: int) -> None:
        self._journal.append("event", name="replay_left_out", attempt=0, step=step, text=text, data={})


def _array(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
