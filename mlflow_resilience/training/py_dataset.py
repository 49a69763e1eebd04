"""What a user's PyDataset changes in itself while it is used (a shuffled index, an epoch counter)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import keras
import numpy as np

from mlflow_resilience.training.packing import NotStorable, pack


def fingerprints(dataset: keras.utils.PyDataset) -> dict[str, str]:
    """A digest of each attribute that is plain data."""
    found = {}
    for name, value in _own_attributes(dataset).items():
        digest = _digest(value, name)
        if digest is not None:
            found[name] = digest
    return found


def changed_attributes(dataset: keras.utils.PyDataset, before: dict[str, str]) -> dict[str, Any]:
    """Copies of the attributes that are no longer as they were when the fingerprints were taken."""
    changed = {}
    for name, value in _own_attributes(dataset).items():
        digest = _digest(value, name)
        if digest is not None and digest != before.get(name):
            changed[name] = np.array(value) if isinstance(value, np.ndarray) else value
    return changed


def _own_attributes(dataset: keras.utils.PyDataset) -> dict[str, Any]:
    return {name: value for name, value in vars(dataset).items() if name not in _KERAS_OWN}


_KERAS_OWN = frozenset({"_workers", "_use_multiprocessing", "_max_queue_size"})


def _digest(value: Any, name: str) -> str | None:
    arrays: dict[str, np.ndarray] = {}
    try:
        document = pack(value, arrays, name)
    except NotStorable:
        return None
    total = hashlib.sha256(json.dumps(document).encode())
    for key in sorted(arrays):
        total.update(np.ascontiguousarray(arrays[key]).reshape(-1).view(np.uint8).data)
    return total.hexdigest()
