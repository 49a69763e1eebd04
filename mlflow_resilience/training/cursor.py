"""The live iterator that a training takes its batches from."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mlflow_resilience.training import anchor, pristine
from mlflow_resilience.training.anchor import Anchor
from mlflow_resilience.training.data_position import DataPosition
from mlflow_resilience.training.records import Records


class Cursor:
    """A live iterator; after a batch of it failed, a new one at the same place, or one that goes record by record."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.iterator = iter(dataset)
        self.records: Records | None = None

    @property
    def element_spec(self) -> Any:
        return self.iterator.element_spec

    def next(self) -> Any:
        """The next batch; None for one of which no record could be read. Raises OutOfRangeError at the end."""
        if self.records is None:
            return self.iterator.get_next()
        try:
            return self.records.next_batch()
        except StopIteration:
            raise tf.errors.OutOfRangeError(None, None, "End of sequence") from None

    def go_to(self, laid: Anchor | None) -> int:
        """From its beginning, go to where the anchor was laid; how many batches have been taken there.

        Without an anchor, or where it was laid in another pipeline, that is the beginning.
        """
        if laid is None:
            return 0
        try:
            anchor.restore(iter(self._copy()), laid)  # one that does not fit would leave the shuffle's seeds moved on
        except (anchor.NotRestored, pristine.NotCopyable):
            return 0
        return anchor.restore(self.iterator, laid)

    def reopen(self, position: DataPosition) -> None:
        """Stand again where ``position`` says, on a pipeline that is as new. Raises pristine.NotCopyable."""
        dataset = self._copy()
        for _ in range(position.iterators - 1):
            iter(dataset)
        self.iterator, self.records = iter(dataset), None
        try:
            for _ in range(self.go_to(position.anchor), position.taken):
                self.iterator.get_next()
        except tf.errors.OutOfRangeError:
            raise
        except tf.errors.OpError:  # of a batch whose bad records were left out before
            self.go_by_records(position)

    def go_by_records(self, position: DataPosition) -> None:
        """From the batch at ``position`` on, take what can be read. Raises NoRecords or pristine.NotCopyable."""
        self.records = Records(self.dataset, iterators=position.iterators, taken=position.taken)

    def _copy(self) -> tf.data.Dataset:
        return pristine.from_graph(pristine.graph_of(self.dataset), self.dataset.element_spec)
