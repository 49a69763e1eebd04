"""The records of a batched pipeline one by one, in the order in which its batches take them: for a batch that failed.

The graph of a pipeline is a chain. Cut below its batching, it gives records; cut below the maps that make a record from
what it is made of (a path, a number), it gives the record's identity. Both cuts are made anew, so they begin where the
pipeline itself began, and the same shuffles give the same order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from mlflow_resilience.core.failure import classify
from mlflow_resilience.core.fault import describe
from mlflow_resilience.core.redaction import redact
from mlflow_resilience.core.text import clean
from mlflow_resilience.recoveries import BUILT_IN
from mlflow_resilience.training import pristine

_BATCHES = ("BatchDataset", "BatchDatasetV2", "ParallelBatchDataset")
_ONE_TO_ONE = ("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2", "MapAndBatchDataset")
_TRANSPARENT = ("PrefetchDataset", "OptionsDataset", "ModelDataset", "AssertCardinalityDataset")


class NoRecords(ValueError):
    """The pipeline does not let its records be told apart: it does not end in batching plain records."""


@dataclass(frozen=True)
class Bad:
    """A record that could not be read: its place in the epoch's order, what it is made of, and why."""

    index: int
    identity: str
    error: str

    def to_dict(self) -> dict[str, Any]:
        return {"index": self.index, "record": redact(self.identity), "error": redact(self.error)}


class Records:
    """Reads a pipeline record by record, from its ``taken``-th batch on; its batches are of those that can be read.

    ``iterators`` is how many were made of the pipeline in all. Raises NoRecords or pristine.NotCopyable.
    """

    def __init__(self, dataset: tf.data.Dataset, *, iterators: int, taken: int) -> None:
        graph = pristine.graph_of(dataset)
        cut = _cut(graph)
        self._size, self._whole_only = cut.size, cut.whole_only
        self._spec = dataset.element_spec
        one = tf.nest.map_structure(_without_batch, dataset.element_spec)
        self._records = _opened(graph, cut.records, one, iterators)
        self._sources = _opened(graph, cut.sources, _spec_of(graph, cut.sources), iterators)
        self._index = 0
        self.bad: list[Bad] = []
        with contextlib.suppress(StopIteration):  # the epoch's last batch may be smaller
            for _ in range(taken * self._size):
                self._one()
        self.bad = []

    @property
    def element_spec(self) -> Any:
        return self._spec

    def next_batch(self) -> Any | None:
        """The next batch, of the records that can be read; None when none can. What cannot is added to ``bad``.

        Raises StopIteration at the end of the epoch.
        """
        good, seen = [], 0
        while seen < self._size:
            try:
                record = self._one()
            except StopIteration:
                break
            seen += 1
            if record is not None:
                good.append(record)
        if seen == 0 or (self._whole_only and seen < self._size):
            raise StopIteration
        if not good:
            return None
        return tf.nest.map_structure(lambda *tensors: tf.stack(tensors), *good)

    def _one(self) -> Any | None:
        identity = self._identity()
        try:
            record = next(self._records)
        except StopIteration:
            raise
        except (tf.errors.OpError, ValueError) as error:
            if not _is_bad(error):
                raise
            self.bad.append(Bad(self._index, identity, clean(str(error))[:500]))
            record = None
        self._index += 1
        return record

    def _identity(self) -> str:
        try:
            return _in_words(next(self._sources), self._index)
        except StopIteration:
            return f"record {self._index} of the epoch"


def identities(dataset: tf.data.Dataset, *, iterators: int, indices: Iterable[int]) -> dict[int, str]:
    """What the records at these places of the epoch's order are made of. Raises NoRecords or pristine.NotCopyable."""
    graph = pristine.graph_of(dataset)
    cut = _cut(graph)
    wanted = set(indices)
    sources = _opened(graph, cut.sources, _spec_of(graph, cut.sources), iterators)
    return {i: _in_words(source, i) for i, source in enumerate(islice(sources, max(wanted) + 1)) if i in wanted}


def batch_size(graph: tf.compat.v1.GraphDef, element_spec: Any) -> int:
    """How many records a batch is made of. Raises NoRecords unless the pipeline ends in a batching of plain records."""
    tf.nest.map_structure(_without_batch, element_spec)
    return _cut(graph).size


def _is_bad(error: Exception) -> bool:
    """Whether it is the record, and not the storage or the memory, that is to blame."""
    return classify(describe(error, phase="data"), BUILT_IN).failure_class == "bad_data"


@dataclass(frozen=True)
class _Cut:
    records: str
    sources: str
    size: int
    whole_only: bool


def _cut(graph: tf.compat.v1.GraphDef) -> _Cut:
    nodes = {node.name: node for node in graph.node}
    name = next(node for node in graph.node if node.op == "_Retval").input[0]
    node = nodes[_plain(name)]
    while node.op in _TRANSPARENT:
        node = nodes[_plain(node.input[0])]
    if node.op not in _BATCHES:
        raise NoRecords(f"the pipeline ends in {node.op}, not in a batching of records")
    records = _plain(node.input[0])
    last = node.input[3] if node.op == "ParallelBatchDataset" else node.input[2] if len(node.input) > 2 else None
    whole_only = bool(last) and bool(_value(nodes[_plain(str(last))]))
    return _Cut(records, _sources(nodes, records), int(_value(nodes[_plain(node.input[1])])), whole_only)


def _sources(nodes: dict[str, Any], name: str) -> str:
    """Down through what makes one record of one."""
    while nodes[name].op in (*_ONE_TO_ONE, *_TRANSPARENT):
        name = _plain(nodes[name].input[0])
    return name


def _opened(graph: tf.compat.v1.GraphDef, name: str, spec: Any, iterators: int) -> Iterator[Any]:
    dataset = pristine.from_graph(graph, spec, output=name)
    for _ in range(iterators - 1):
        iter(dataset)
    return iter(dataset)


def _spec_of(graph: tf.compat.v1.GraphDef, name: str) -> Any:
    node = next(node for node in graph.node if node.name == name)
    name = "output_types" if "output_types" in node.attr else "Toutput_types"  # to ask for one would make it
    types = node.attr[name].list.type
    shapes = node.attr["output_shapes"].list.shape
    return tuple(
        tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(kind)) for shape, kind in zip(shapes, types, strict=True)
    )


def _without_batch(spec: Any) -> Any:
    if not isinstance(spec, tf.TensorSpec):
        raise NoRecords(f"records of {type(spec).__name__} cannot be told apart")
    return tf.TensorSpec(spec.shape[1:], spec.dtype)


def _value(node: Any) -> Any:
    return tf.make_ndarray(node.attr["value"].tensor)


def _plain(name: str) -> str:
    return name.split(":")[0].lstrip("^")


def _in_words(source: Any, index: int) -> str:
    """What a record is made of: a path or text in it, else a number, else its place."""
    values = [np.asarray(value) for value in tf.nest.flatten(source)]
    for value in values:
        if value.dtype.kind in "OSU" and value.ndim == 0:
            text = value.item()
            return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    numbers = [value for value in values if value.dtype.kind in "iu" and value.ndim == 0]
    return f"record {int(numbers[0])}" if numbers else f"record {index} of the epoch"
