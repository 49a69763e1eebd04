"""A disk that is full when the next checkpoint is written, and a checkpoint that is torn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mlflow_resilience.spool import full_disk
from mlflow_resilience.strikes.place import Place, Strike

_TENSORS = "state.safetensors"


def _disk_full(batch: Any, place: Place) -> Any:
    full_disk.arrange()
    return batch


def _torn_checkpoint(batch: Any, place: Place) -> Any:
    """The newest checkpoint loses its second half, and is read, as whoever goes back to it would."""
    place.settle()
    found = sorted(place.checkpoints.glob(f"step-*/{_TENSORS}"))
    if not found:
        raise RuntimeError("there is no checkpoint yet that could be torn: choose a later step")
    _tear(found[-1])
    place.read(found[-1].parent)
    return batch


def _tear(path: Path) -> None:
    """A new file in the place of the old one, which a logged model may share."""
    half = path.with_suffix(".torn")
    half.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    os.replace(half, path)


STRIKES: dict[str, Strike] = {"disk_full": _disk_full, "torn_checkpoint": _torn_checkpoint}
