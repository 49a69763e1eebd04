"""The quick form of an examination: a training's own first batches, looked at as they pass.

Nothing is read ahead, and no random number is drawn: the training is the same with it and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.doctor import data_checks, looking, model_checks
from mlflow_resilience.doctor.facts import Expected, Split
from mlflow_resilience.doctor.finding import Finding

_BATCHES = 8
_MOST_BYTES = 32 << 20  # of a batch: a larger one is not copied

Before = Callable[[int, Any], Any]


class Passing:
    """Looks at the first batches of one fit, and then tells what is wrong with them."""

    def __init__(self, model: keras.Model, tell: Callable[[int, Finding], None]) -> None:
        self._model, self._tell = model, tell
        self._seen: list[Any] = []
        self._done = False

    def watching(self, before: Before) -> Before:
        """``before``, which gives each step its batch, with this looking on."""

        def look(step: int, batch: Any) -> Any:
            if not self._done:
                try:
                    self._look(step, batch)
                except Exception as error:  # whatever a user's data and losses are: training is not to suffer from it
                    self._seen, self._done = [], True
                    self._tell(step, _not_looked_at(error))
            return before(step, batch)

        return look

    def _look(self, step: int, batch: Any) -> None:
        tensors = [each for each in tf.nest.flatten(batch) if each is not None]
        plain = all(isinstance(each, tf.Tensor) for each in tensors)
        if not plain or sum(each.shape.num_elements() * each.dtype.size for each in tensors) > _MOST_BYTES:
            self._done = True
            return
        self._seen.append(tf.nest.map_structure(lambda each: None if each is None else each.numpy(), batch))
        if len(self._seen) < _BATCHES:
            return
        seen, self._seen, self._done = self._seen, [], True
        split = looking.of_batches(seen, "training", None, _BATCHES + 1)
        for finding in _findings(split, looking.expected_by(self._model)):
            self._tell(step, finding)


def _not_looked_at(error: Exception) -> Finding:
    return Finding(
        severity="note",
        check="not_looked_at",
        text=f"the first batches could not be examined ({type(error).__name__}: {error})",
        remedy="`mlflow-resilience doctor` on a recipe says more",
    )


def _findings(split: Split, expected: Expected) -> Iterator[Finding]:
    yield from data_checks.not_finite(split)
    yield from data_checks.out_of_scale(split, expected)
    yield from model_checks.targets_fit(split, expected)
    yield from model_checks.loss_fits_activation(expected)
