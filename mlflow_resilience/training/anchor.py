"""An anchor: the stored state of a live iterator, from which a place in the data is found without going all the way.

Going through a pipeline again finds every place in it, and is how places are found. For a pipeline that has been read
for long that would take long too, so once a minute the state of the iterator is stored, where tf.data can store it and
it is small: a resume then goes through the data of a minute or so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator

from mlflow_resilience.training import pipeline

#: ``taken`` says after how many batches of its iterator it was laid, ``state`` what was stored.
Anchor = dict[str, Any]

SECONDS = 60.0  # between two anchors
SHARE = 0.01  # of the time, at most, goes into laying them
MOST_BYTES = 64 << 20  # of a state: it is written with every checkpoint
_FAIL = 2  # tf.data's policy about state that lies outside of the iterator


class NotRestored(ValueError):
    """The state of an iterator does not fit the pipeline."""


class Anchors:
    """Lays the anchors of one pipeline. ``now`` is a clock in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._possible = True
        self._cost = 0.0
        self._laid = now()

    def opened(self) -> None:
        """A new iterator was made: its beginning needs no anchor."""
        self._laid = self._now()

    def lay(self, iterator: Any, dataset: Any, batch_bytes: int, batch_size: int) -> np.ndarray | None:
        """The state of ``iterator``, when it is time for it and it can be stored; it goes on undisturbed.

        ``batch_bytes`` and ``batch_size`` are those of a batch: what the pipeline's buffers hold is estimated by them.
        """
        began = self._now()
        if not self._possible or began - self._laid < max(SECONDS, self._cost / SHARE):
            return None
        state = self._store(iterator, dataset, batch_bytes, batch_size)
        self._possible = state is not None
        self._laid = self._now()
        self._cost = self._laid - began
        return state

    def _store(self, iterator: Any, dataset: Any, batch_bytes: int, batch_size: int) -> np.ndarray | None:
        held = pipeline.held(dataset)
        if held is None or not isinstance(iterator, OwnedIterator):
            return None
        if held.records * batch_bytes / max(batch_size, 1) + held.batches * batch_bytes > MOST_BYTES:
            return None
        try:
            state = tf.raw_ops.SerializeIterator(
                resource_handle=iterator._iterator_resource, external_state_policy=_FAIL
            )
            stored = np.array(np.frombuffer(tf.io.serialize_tensor(state).numpy(), np.uint8))
        except tf.errors.OpError:  # Python code, files in a cache, numbers drawn from a kernel's own stream
            return None
        stored.flags.writeable = False
        return stored if stored.nbytes <= MOST_BYTES else None


def restore(iterator: Any, anchor: Anchor) -> int:
    """Bring a new ``iterator`` to where ``anchor`` was laid; how many batches have been taken there.

    Raises NotRestored when it was laid in another pipeline; the iterator and its pipeline are of no use then.
    """
    try:
        state = tf.io.parse_tensor(np.asarray(anchor["state"]).tobytes(), tf.variant)
        tf.raw_ops.DeserializeIterator(resource_handle=iterator._iterator_resource, serialized=state)
    except (tf.errors.OpError, AttributeError) as error:
        raise NotRestored(str(error)) from error
    return int(anchor["taken"])
