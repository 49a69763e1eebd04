"""Keras's epoch iterator, able to begin in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer

from mlflow_resilience.training.batches import Feed
from mlflow_resilience.training.build import blank
from mlflow_resilience.training.cursor import Cursor
from mlflow_resilience.training.data_position import DataPosition


class PositionedEpochIterator(keras_trainer.TFEpochIterator):
    """Keras's epoch iterator, able to begin in the middle of an epoch. Without a `Feed` it is the original."""

    def reset(self) -> None:
        super().reset()
        feed = self.data_adapter
        if isinstance(feed, Feed) and feed.start is not None and feed.start.num_batches is not None:
            self._num_batches = feed.start.num_batches
            self._steps_seen = feed.start.steps_seen

    def _enumerate_iterator(self) -> Iterator[tuple[int, int, Any]]:
        if not isinstance(self.data_adapter, Feed):
            yield from super()._enumerate_iterator()
            return
        feed = self.data_adapter
        feed.loop = self
        if feed.looks_ahead:
            yield from self._look_ahead(feed)
            return
        feed.looks_ahead = feed.distributed and not feed.training  # before each validation
        feed.on_epoch_begin()
        start = feed.start or DataPosition()
        if feed.start is not None:
            self._current_iterator = feed.find(self._distributed_dataset, start)
            feed.recall = start.step > 0
            feed.start = None
        stride = self.steps_per_execution
        bound = self.steps_per_epoch or self._num_batches or -1
        if bound <= 0:
            yield from self._unbounded(feed, start.step, stride)
        else:
            yield from self._bounded(feed, start.step, bound, stride)
        feed.on_epoch_end()

    def _look_ahead(self, feed: Feed) -> Iterator[tuple[int, int, Any]]:
        """The batch by which Keras builds a model that has a strategy. It makes an iterator for it, which counts."""
        feed.looks_ahead = False
        if feed.training and feed.start is not None:  # it was done, and the model is built
            yield 0, 0, iter([tf.nest.map_structure(blank, feed.element_spec)])
            return
        feed.on_epoch_begin()
        if feed.start is not None:
            self._current_iterator = feed.find(self._distributed_dataset, feed.start)
            feed.start = None
        if self._current_iterator is None or self.steps_per_epoch is None:
            self._current_iterator = feed.open(self._distributed_dataset)
        yield 0, 0, self._current_iterator.iterator

    # The two loops follow Keras's own to the letter, but for their first step and for counting: which iterators are
    # made, and when, decides the shuffle's seeds.
    def _bounded(self, feed: Feed, first: int, bound: int, stride: int) -> Iterator[tuple[int, int, Any]]:
        if self._current_iterator is None or (self.steps_per_epoch is None and first == 0):
            self._current_iterator = feed.open(self._distributed_dataset)
            self._steps_seen = 0
        if first:
            yield self._step(feed, first - stride, stride, self._current_iterator)  # already done: see `recall`
        for step in range(first, bound, stride):
            if self._num_batches and self._steps_seen >= self._num_batches:
                if self.steps_per_epoch:
                    self._interrupted_warning()
                break
            self._steps_seen += stride
            yield self._step(feed, step, stride, self._current_iterator)
        if self._num_batches and self._steps_seen >= self._num_batches:
            self._current_iterator = feed.open(self._distributed_dataset)
            self._steps_seen = 0

    def _unbounded(self, feed: Feed, first: int, stride: int) -> Iterator[tuple[int, int, Any]]:
        cursor = self._current_iterator if first else None
        if cursor is None:
            cursor = feed.open(self._distributed_dataset)
        step = max(first - stride, 0)  # the last step of a resume is already done: see `recall`
        while True:
            self._steps_seen = step + stride
            yield self._step(feed, step, stride, cursor)
            step += stride

    def _step(self, feed: Feed, step: int, stride: int, cursor: Any) -> tuple[int, int, Any]:
        feed.position.step = step + stride
        feed.position.num_batches = self._num_batches
        feed.position.steps_seen = self._steps_seen
        if not feed.training:
            feed.position.taken += stride
        if feed.training:
            return step, step + stride - 1, cursor
        return step, step + stride - 1, cursor.iterator if isinstance(cursor, Cursor) else cursor


def install() -> None:
    """Let `fit` use the positioned iterator. It acts as Keras's own for every call that was not given a `Feed`."""
    keras_trainer.TFEpochIterator = PositionedEpochIterator
