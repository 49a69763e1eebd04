"""How fast batches come, and how fast they are computed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.errors import UsageError
from mlflow_resilience.training import build

WARM_UP = 3  # batches that are not counted: buffers fill, things are traced
LEAST = 3  # batches that are, however long they take


@dataclass(frozen=True)
class Pace:
    """Seconds a batch, over so many."""

    seconds: float
    batches: int


class Step:
    """A model's training step on a batch, as ``fit`` does it; what it changes is put back at the end."""

    def __init__(self, model: keras.Model, batch: Any) -> None:
        self._model, self._batch = model, batch
        self._before: list[Any] = []

    @classmethod
    def of(cls, model: keras.Model, dataset: tf.data.Dataset) -> Self:
        """For the first batch of a pipeline. Raises UsageError where there is none."""
        batch = next(iter(dataset), None)
        if batch is None:
            raise UsageError("throughput: the pipeline has no batch")
        build.build(model, dataset.element_spec)
        return cls(model, batch)

    def __enter__(self) -> Self:
        self._before = [(variable, variable.numpy()) for variable in self._variables()]
        compiled = tf.function(self._model.train_step, jit_compile=True if self._model.jit_compile is True else None)
        self._run = self._model.train_step if self._model.run_eagerly else compiled
        self(self._batch)  # traced and compiled now: a pipeline would run ahead meanwhile, and seem faster than it is
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for variable, value in self._before:
            variable.assign(value)

    def __call__(self, batch: Any) -> None:
        """One step, and wait for it."""
        logs = self._run(batch)
        for value in tf.nest.flatten(logs):
            np.asarray(value)

    def same_batch(self) -> Iterator[Any]:
        """One batch, again and again."""
        while True:
            yield self._batch

    def _variables(self) -> list[Any]:
        metrics = [variable for each in self._model.metrics for variable in each.variables]
        held = [*self._model.variables, *self._model.optimizer.variables, *metrics]
        return list({id(variable): variable for variable in held}.values())


def pace(batches: Iterable[Any], step: Step | None, seconds: float, *, first: int = WARM_UP) -> Pace:
    """Read for so long, and compute where there is a step; the first batches are not counted, what ends begins anew."""
    endless = _endless(batches)
    for _ in range(first):
        _take(endless, step)
    begun, taken = time.perf_counter(), 0
    while taken < LEAST or time.perf_counter() - begun < seconds:
        _take(endless, step)
        taken += 1
    return Pace((time.perf_counter() - begun) / taken, taken)


def _take(batches: Iterator[Any], step: Step | None) -> None:
    batch = next(batches)
    if step is not None:
        step(batch)


def _endless(batches: Iterable[Any]) -> Iterator[Any]:
    if isinstance(batches, tf.data.Dataset):
        batches = batches.repeat()
    return iter(batches)
