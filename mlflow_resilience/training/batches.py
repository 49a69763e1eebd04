"""Which batch comes next: the data position, kept, stored and found again.

A position in the data is a count: how many iterators were made of the pipeline (each draws the shuffle's next seed),
and how many batches were taken from the newest one. It is found again by making as many iterators on a pipeline that is
new, and taking as many batches. The training itself stays Keras's: `Feed` is a data adapter, which `fit` accepts in
place of the data, and `PositionedEpochIterator` is Keras's epoch iterator able to begin in the middle of an epoch.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.tensorflow import trainer as keras_trainer
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from mlflow_resilience.training import pipeline, pristine, randomness
from mlflow_resilience.training.cursor import Cursor
from mlflow_resilience.training.data_position import DataPosition, is_marked
from mlflow_resilience.training.py_dataset import Given


class Feed(DataAdapter):
    """The data of a `fit` or of its validation, positioned.

    ``arguments`` are those of Keras's `get_data_adapter`. The real adapter is made when Keras would make it, since
    making it draws random numbers. With ``start`` the first epoch begins there.
    """

    def __init__(
        self,
        arguments: dict[str, Any],
        *,
        training: bool,
        start: DataPosition | None = None,
        given: Given | None = None,
    ) -> None:
        self.arguments = arguments
        self.training = training
        self.start = start
        self.position = dataclasses.replace(start) if start is not None else DataPosition()
        self.element_spec: Any = None  # known once the dataset is made
        self.recall = False  # the next step was done before the resume: its results are to be recalled, not repeated
        self.loop: PositionedEpochIterator | None = None  # Keras's loop over this data
        self.differs: Callable[[], None] = lambda: None  # told when the data found again is not what was read before
        self._adapter: DataAdapter | None = None
        self._fresh = True
        self._given = given  # a PyDataset as the script made it
        if given is not None:
            given.reset(arguments["x"])
        self._calls_python = pipeline.calls_python(arguments["x"])
        self._variables = pipeline.variables(arguments["x"])

    @property
    def adapter(self) -> DataAdapter:
        if self._adapter is None:
            self._adapter = data_adapters.get_data_adapter(**self.arguments)
        return self._adapter

    def get_tf_dataset(self) -> Any:
        dataset = self.adapter.get_tf_dataset()
        self.element_spec = dataset.element_spec
        return dataset

    @property
    def num_batches(self) -> int | None:
        return self.adapter.num_batches

    @property
    def batch_size(self) -> int | None:
        return self.adapter.batch_size

    @property
    def has_partial_batch(self) -> bool:
        return self.adapter.has_partial_batch

    @property
    def partial_batch_size(self) -> int | None:
        return self.adapter.partial_batch_size

    @property
    def py_dataset(self) -> keras.utils.PyDataset | None:
        """The user's PyDataset, where the data is one."""
        found = getattr(self._adapter, "py_dataset", None)
        return found if isinstance(found, keras.utils.PyDataset) else None

    @property
    def is_python(self) -> bool:
        """Whether Python code makes the batches, and so draws from Python's and NumPy's random state."""
        return self._calls_python or self.py_dataset is not None

    def on_epoch_begin(self) -> None:
        if self.py_dataset is not None:
            if self.start is not None:
                self._restore_random(self.start)
                for name, value in self.start.attributes.items():
                    setattr(self.py_dataset, name, value)
            self.position.random = _python_random()
            self.position.attributes = self._changed()
        self.adapter.on_epoch_begin()

    def on_epoch_end(self) -> None:
        # Keras calls this once before training: the position of a resume is not to be disturbed by it.
        if self._fresh and self.start is not None and self.py_dataset is not None:
            self._fresh = False
            return
        self._fresh = False
        self.adapter.on_epoch_end()

    def now(self) -> DataPosition:
        """The position, as a copy that stays."""
        if self.loop is not None:
            self.position.num_batches, self.position.steps_seen = self.loop._num_batches, self.loop._steps_seen
        return dataclasses.replace(self.position)

    def epoch_ended(self) -> None:
        """Between two epochs: what the user's dataset has changed in itself by now is what the next one starts with."""
        self.position.step = 0
        if self.py_dataset is not None:
            self.position.random = None
            self.position.attributes = self._changed()

    def open(self, dataset: Any) -> Cursor:
        """A new iterator on ``dataset``."""
        self.position.iterators += 1
        self.position.taken = 0
        self.position.exhausted = False
        if self._calls_python:
            self.position.random = _python_random()
        self.position.variables = [variable.numpy() for variable in self._variables]
        return Cursor(dataset)

    def find(self, dataset: Any, start: DataPosition) -> Cursor | None:
        """The iterator that was current at ``start``, as far on as it was then."""
        if start.exhausted and not start.step:  # Keras begins the next epoch with a new one
            for number in range(1, start.iterators + 1):
                self._compare(number, iter(dataset))
            self.position.iterators = start.iterators
            return None
        for number in range(1, start.iterators):
            self._compare(number, iter(dataset))
        self.position.iterators = max(start.iterators - 1, 0)
        if not start.iterators:
            return None
        if start.taken and self._calls_python:
            self._restore_random(start)
        for variable, value in zip(self._variables, start.variables, strict=True):
            variable.assign(value)
        cursor = self.open(dataset)
        try:
            for number in range(start.taken):
                batch = cursor.next()
                if number == 0:
                    self._compare_batch(start.iterators, batch)
        except tf.errors.OutOfRangeError:
            pass  # of validation data Keras asks once too often
        except tf.errors.OpError:  # of a batch whose bad records were left out before
            cursor.go_by_records(start)
        self.position.taken = start.taken
        self.position.exhausted = start.exhausted
        return cursor

    def _compare(self, number: int, iterator: Any) -> None:
        """Look whether an earlier iterator gives what it gave. Python code is not asked: it would draw ahead."""
        if self._is_marked(number) and not (self.is_python or self._variables):
            with contextlib.suppress(tf.errors.OpError, StopIteration):
                self._compare_batch(number, iterator.get_next())

    def _compare_batch(self, number: int, batch: Any) -> None:
        if self._is_marked(number) and not is_marked(self.position.mark or {}, batch):
            self.differs()

    def _is_marked(self, number: int) -> bool:
        mark = self.position.mark
        return self.training and mark is not None and mark["iterator"] == number

    def _changed(self) -> dict[str, Any]:
        return self._given.changed(self.py_dataset) if self._given is not None else {}

    def _restore_random(self, start: DataPosition) -> None:
        if start.random is not None:
            randomness.restore(start.random, only=_PYTHON)


_PYTHON = ("python", "numpy")


def _python_random() -> dict[str, Any]:
    whole = randomness.capture()
    return {name: whole[name] for name in _PYTHON}


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


def renewed(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same data arguments with a pipeline from which nothing has been read.

    Arrays need nothing: Keras makes their pipeline anew in each `fit`. Raises pristine.NotCopyable.
    """
    data = arguments["x"]
    if not isinstance(data, tf.data.Dataset):
        return arguments
    fresh = pristine.from_graph(pristine.graph_of(data), data.element_spec)
    return {**arguments, "x": pipeline.stands_for(fresh, data)}
