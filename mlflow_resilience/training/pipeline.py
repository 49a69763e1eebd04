"""What a tf.data pipeline is made of, from its objects alone: nothing is read and no random number is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc", "GeneratorDataset"})


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage: its kind (``ParallelMap``), whether it works on elements in parallel, and the ops of its functions.

    ``ordered`` is False where the stage was told not to keep the order of its elements.
    """

    kind: str
    parallel: bool
    ordered: bool
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


def _stage(dataset: Any) -> Stage:
    kind = type(dataset).__name__.strip("_").removesuffix("Dataset").removesuffix("V2")
    calls = getattr(dataset, "_num_parallel_calls", None)
    return Stage(
        kind=kind,
        parallel=calls is not None or kind.startswith("Parallel"),
        ordered=str(getattr(dataset, "_deterministic", "default")).lower() != "false",
        ops=_ops(dataset),
    )


def _ops(dataset: Any) -> frozenset[str]:
    found: set[str] = set()
    for function in dataset._functions():
        graph = function.function.graph.as_graph_def()
        found.update(node.op for node in graph.node)
        found.update(node.op for called in graph.library.function for node in called.node_def)
    return frozenset(found)
