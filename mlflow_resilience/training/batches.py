"""Which batch comes next: the data position, kept, stored and found again.

A position in the data is a count: how many iterators were made of the pipeline (each draws the shuffle's next seed),
and how many batches were taken from the newest one. It is found again by making as many iterators on a pipeline that is
new, and taking as many batches, or from an anchor on the rest of them. The training itself stays Keras's: `Feed` is a
data adapter, which `fit` accepts in place of the data.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers import data_adapters
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from mlflow_resilience.training import pipeline, pristine, randomness, reshuffling
from mlflow_resilience.training.anchor import Anchors
from mlflow_resilience.training.cursor import Cursor
from mlflow_resilience.training.data_position import DataPosition, is_marked, mark
from mlflow_resilience.training.py_dataset import Given
from mlflow_resilience.training.reshuffling import EachEpoch

if TYPE_CHECKING:
    from mlflow_resilience.training.epoch_iterator import PositionedEpochIterator


class Feed(DataAdapter):
    """The data of a `fit` or of its validation, positioned.

    ``arguments`` are those of Keras's `get_data_adapter`. The real adapter is made when Keras would make it, since
    making it draws random numbers. With ``start`` the first epoch begins there. ``distributed`` says whether the model
    has a strategy.
    """

    def __init__(
        self,
        arguments: dict[str, Any],
        *,
        training: bool,
        start: DataPosition | None = None,
        given: Given | None = None,
        distributed: bool = False,
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
        self.distributed = distributed
        self.looks_ahead = distributed  # Keras is about to take a batch to build the model by
        self.anchors = Anchors()
        self._batch: tuple[int, int] | None = None  # bytes and records of one
        self._given = given  # a PyDataset as the script made it
        if given is not None:
            given.reset(arguments["x"])
        self._calls_python = pipeline.calls_python(arguments["x"])
        self._variables = pipeline.variables(arguments["x"])

    @property
    def adapter(self) -> DataAdapter:
        if self._adapter is None:
            plainly = (
                {**self.arguments, "shuffle": False}
                if isinstance(self.arguments["shuffle"], EachEpoch)
                else self.arguments
            )
            self._adapter = data_adapters.get_data_adapter(**plainly)
        return self._adapter

    def get_tf_dataset(self) -> Any:
        adapter, shuffle = self.adapter, self.arguments["shuffle"]
        if isinstance(shuffle, EachEpoch) and isinstance(adapter, ArrayDataAdapter):
            dataset = reshuffling.dataset(adapter, shuffle)
        else:
            dataset = adapter.get_tf_dataset()
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
        self.position.anchor = None
        self.anchors.opened()
        if self._calls_python:
            self.position.random = _python_random()
        self.position.variables = [variable.numpy() for variable in self._variables]
        return Cursor(dataset)

    def take(self, cursor: Cursor) -> Any:
        """The next batch to train, as :meth:`Cursor.next` gives it."""
        if self.position.taken and cursor.records is None and self._batch is not None:
            state = self.anchors.lay(cursor.iterator, self.arguments["x"], *self._batch)
            if state is not None:
                self.position.anchor = {"taken": self.position.taken, "state": state}
        batch = cursor.next()
        if batch is not None:
            self._batch = self._batch or _size(batch)
            if self.position.taken == 0 or self._is_anchor(self.position.taken):
                self.position.mark = mark(self.position, batch)
        self.position.taken += 1
        return batch

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
        self.position.anchor = start.anchor
        try:
            for number in range(cursor.go_to(start.anchor), start.taken):
                batch = cursor.next()
                if self._is_marked(start.iterators, number):
                    self._compare_batch(batch)
        except tf.errors.OutOfRangeError:
            pass  # of validation data Keras asks once too often
        except tf.errors.OpError:  # of a batch whose bad records were left out before
            cursor.go_by_records(start)
        self.position.taken = start.taken
        self.position.exhausted = start.exhausted
        return cursor

    def _compare(self, number: int, iterator: Any) -> None:
        """Look whether an earlier iterator gives what it gave. Python code is not asked: it would draw ahead."""
        if self._is_marked(number, 0) and not (self.is_python or self._variables):
            with contextlib.suppress(tf.errors.OpError, StopIteration):
                self._compare_batch(iterator.get_next())

    def _compare_batch(self, batch: Any) -> None:
        if not is_marked(self.position.mark or {}, batch):
            self.differs()

    def _is_marked(self, iterator: int, taken: int) -> bool:
        mark = self.position.mark
        return self.training and mark is not None and (mark["iterator"], mark.get("taken", 0)) == (iterator, taken)

    def _is_anchor(self, taken: int) -> bool:
        return self.position.anchor is not None and self.position.anchor["taken"] == taken

    def _changed(self) -> dict[str, Any]:
        return self._given.changed(self.py_dataset) if self._given is not None else {}

    def _restore_random(self, start: DataPosition) -> None:
        if start.random is not None:
            randomness.restore(start.random, only=_PYTHON)


def _size(batch: Any) -> tuple[int, int]:
    """Bytes of a batch, and its records."""
    arrays = [np.asarray(tensor) for tensor in tf.nest.flatten(batch, expand_composites=True)]
    texts = sum(sum(map(len, array.ravel())) for array in arrays if array.dtype == object)
    return texts + sum(array.nbytes for array in arrays), max((len(array) for array in arrays if array.ndim), default=1)


_PYTHON = ("python", "numpy")


def _python_random() -> dict[str, Any]:
    whole = randomness.capture()
    return {name: whole[name] for name in _PYTHON}


def renewed(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same data arguments with a pipeline from which nothing has been read.

    Arrays need nothing: Keras makes their pipeline anew in each `fit`. Raises pristine.NotCopyable.
    """
    data = arguments["x"]
    if not isinstance(data, tf.data.Dataset):
        return arguments
    fresh = pristine.from_graph(pristine.graph_of(data), data.element_spec)
    return {**arguments, "x": pipeline.stands_for(fresh, data)}
