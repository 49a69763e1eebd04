"""What a tf.data pipeline is made of, from its objects alone: nothing is read and no random number is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from mlflow_resilience.training import pristine

_AUTOTUNED = 16  # elements that a stage is taken to hold when tf.data sizes its buffer, which it does not tell
#: Stages with buffers of their own, within the function of another.
_BUFFERS = frozenset({"ShuffleDatasetV3", "ShuffleAndRepeatDatasetV2", "CacheDatasetV2", "MemoryCache"})
_DRAWING = ("Shuffle", "Random")
_SMALL = 16 << 20  # bytes: a pipeline of more is not written out to be looked at
_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc", "GeneratorDataset"})


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage: its kind (``ParallelMap``), whether it works on elements in parallel, and the ops of its functions.

    ``ordered`` is False where the stage was told not to keep the order of its elements, ``seeded`` where it draws from
    a seed that another process would not draw.
    """

    kind: str
    parallel: bool
    ordered: bool
    seeded: bool
    ops: frozenset[str]


def stages(dataset: tf.data.Dataset) -> Iterator[Stage]:
    """The stages, the last one first."""
    return map(_stage, _walk(dataset))


def calls_python(dataset: Any) -> bool:
    """Whether Python code takes part in making the elements, and may draw from Python's and NumPy's random state."""
    return isinstance(dataset, tf.data.Dataset) and any(stage.ops & _PYTHON for stage in stages(dataset))


def variables(dataset: Any) -> list[tf.Variable]:
    """The variables that the pipeline's functions use (seeds of augmentation layers, say), which outlive iterators."""
    if not isinstance(dataset, tf.data.Dataset):
        return []
    found = [
        variable
        for each in _walk(dataset)
        for function in each._functions()
        for variable in function.function.graph.variables
    ]
    return list({id(variable): variable for variable in found}.values())


@dataclass(frozen=True, kw_only=True)
class Held:
    """How many records, and how many whole batches, the buffers of a pipeline may hold at once."""

    records: int
    batches: int


def held(dataset: Any) -> Held | None:
    """What the buffers of a pipeline may hold; None where that has no bound that could be told from outside."""
    if not isinstance(dataset, tf.data.Dataset):
        return None
    records = batches = 0
    for each in _walk(dataset):
        kind, buffer = _kind(each), _buffer(each)
        if kind == "Cache" or buffer is None or _ops(each) & _BUFFERS:
            return None
        if any(_kind(below).endswith("Batch") for below in _walk(each)):
            batches += buffer
        else:
            records += buffer
    return Held(records=records, batches=batches)


def stands_for(copy: Any, original: tf.data.Dataset) -> Any:
    """``copy`` was made from the graph of ``original``: it has no objects that could be looked at."""
    copy._mlflow_resilience_original = getattr(original, "_mlflow_resilience_original", original)
    return copy


def _walk(dataset: Any) -> Iterator[Any]:
    waiting, seen = [getattr(dataset, "_mlflow_resilience_original", dataset)], set()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting.extend(each._inputs())


def _buffer(dataset: Any) -> int | None:
    """How many elements a stage may hold; None where that is not known."""
    if hasattr(dataset, "_buffer_size"):
        size = int(tf.get_static_value(dataset._buffer_size) or _AUTOTUNED)
        return _AUTOTUNED if size == tf.data.AUTOTUNE else size if size > 0 else None
    return _AUTOTUNED if getattr(dataset, "_num_parallel_calls", None) is not None else 0


def _kind(dataset: Any) -> str:
    return type(dataset).__name__.strip("_").removesuffix("Dataset").removesuffix("V2")


def _stage(dataset: Any) -> Stage:
    kind = _kind(dataset)
    calls = getattr(dataset, "_num_parallel_calls", None)
    return Stage(
        kind=kind,
        parallel=calls is not None or kind.startswith("Parallel"),
        ordered=_is_ordered(dataset, kind),
        seeded=kind not in _DRAWING or any(_seeds(dataset)),
        ops=_ops(dataset),
    )


def _is_ordered(dataset: Any, kind: str) -> bool:
    said = str(getattr(dataset, "_deterministic", "default")).lower()
    nodes = list(_nodes(dataset))
    if kind == "ParallelInterleave" and _bytes_given(dataset) < _SMALL:
        nodes += _nodes_of(pristine.graph_of(dataset))  # its objects do not tell
    return said != "false" and not any(node.attr["deterministic"].s == b"false" for node in nodes)


def _seeds(dataset: Any) -> list[int]:
    """A stage's two seeds: both 0 where neither it nor TensorFlow was given one."""
    return [int(tf.get_static_value(getattr(dataset, name, None)) or 0) for name in ("_seed", "_seed2")]


def _bytes_given(dataset: Any) -> int:
    """What the tensors take that the pipeline was made of."""
    sources = [tensor for each in _walk(dataset) for tensor in getattr(each, "_tensors", [])]
    return sum(tensor.shape.num_elements() * tensor.dtype.size for tensor in sources)


def _ops(dataset: Any) -> frozenset[str]:
    return frozenset(node.op for node in _nodes(dataset))


def _nodes(dataset: Any) -> Iterator[Any]:
    for function in dataset._functions():
        yield from _nodes_of(function.function.graph.as_graph_def())


def _nodes_of(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for called in graph.library.function:
        yield from called.node_def
