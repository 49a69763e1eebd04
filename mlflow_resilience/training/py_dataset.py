"""What a user's PyDataset changes in itself while it is used (a shuffled index, an epoch counter)."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import keras
import numpy as np

from mlflow_resilience.training.packing import NotStorable, pack

_KERAS_OWN = frozenset({"_workers", "_use_multiprocessing", "_max_queue_size"})
_LARGE = 1 << 25  # bytes: arrays beyond are data, which is looked at here and there only, and of which no copy is kept
_SAMPLE = 4096


class Given:
    """A dataset as the script made it: a digest of each attribute that is plain data, and copies of the small ones."""

    def __init__(self, dataset: keras.utils.PyDataset) -> None:
        self._digests: dict[str, str] = {}
        self._copies: dict[str, Any] = {}
        for name, value in _own_attributes(dataset).items():
            digest = _digest(value, name)
            if digest is not None:
                self._digests[name] = digest
                if not _is_large(value):
                    self._copies[name] = copy.deepcopy(value)

    def reset(self, dataset: keras.utils.PyDataset) -> None:
        """Undo what an attempt has changed."""
        for name in self.changed(dataset):
            if name in self._copies:
                setattr(dataset, name, copy.deepcopy(self._copies[name]))

    def changed(self, dataset: keras.utils.PyDataset) -> dict[str, Any]:
        """Copies of the attributes that are no longer as they were."""
        found = {}
        for name, value in _own_attributes(dataset).items():
            digest = _digest(value, name)
            if digest is not None and digest != self._digests.get(name):
                found[name] = copy.deepcopy(value)
        return found


def given(arguments: dict[str, Any] | None) -> Given | None:
    """The PyDataset of a data adapter's arguments as it is now, before Keras uses it; None where there is none."""
    data = arguments["x"] if arguments else None
    return Given(data) if isinstance(data, keras.utils.PyDataset) else None


def _own_attributes(dataset: keras.utils.PyDataset) -> dict[str, Any]:
    return {name: value for name, value in vars(dataset).items() if name not in _KERAS_OWN}


def _is_large(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.nbytes > _LARGE


def _digest(value: Any, name: str) -> str | None:
    arrays: dict[str, np.ndarray] = {}
    if _is_large(value):
        value = value.reshape(-1)[np.linspace(0, value.size - 1, _SAMPLE).astype(np.int64)]
    try:
        document = pack(value, arrays, name)
    except NotStorable:
        return None
    total = hashlib.sha256(json.dumps(document).encode())
    for key in sorted(arrays):
        total.update(np.ascontiguousarray(arrays[key]).reshape(-1).view(np.uint8).data)
    return total.hexdigest()
