"""What could be changed about a pipeline that is there: each change as a pipeline of its own, to be tried."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from mlflow_resilience.pipelines.pacing import WARM_UP
from mlflow_resilience.training import pipeline

_MOST = 256 << 20  # bytes that a cache may take while it is tried
_RANDOM = ("Random", "Shuffle")


@dataclass(frozen=True)
class Variant:
    """``warm_up``: so many batches are not counted, since a cache is filled by them."""

    name: str
    dataset: tf.data.Dataset
    remedy: str
    warm_up: int = WARM_UP


def variants(
    dataset: tf.data.Dataset, *, seconds: float, input_seconds: float
) -> tuple[list[Variant], tuple[str, ...]]:
    """What can be tried, and in words what cannot. A cache is filled for about ``seconds``."""
    stages = list(pipeline.stages(dataset))
    affordable = math.ceil(seconds / max(input_seconds, 1e-4))
    found = [_prefetched(dataset, stages), _in_parallel(dataset, stages), _cached(dataset, stages, affordable)]
    return [each for each in found if isinstance(each, Variant)], tuple(each for each in found if isinstance(each, str))


def _prefetched(dataset: tf.data.Dataset, stages: list[pipeline.Stage]) -> Variant | str:
    if any(stage.kind == "Prefetch" for stage in stages):
        return "prefetch: it has one"
    return Variant("prefetch", dataset.prefetch(tf.data.AUTOTUNE), "end the pipeline with .prefetch(tf.data.AUTOTUNE)")


def _in_parallel(dataset: tf.data.Dataset, stages: list[pipeline.Stage]) -> Variant | str:
    maps = [stage for stage in stages if stage.kind == "Map"]
    if not maps:
        return "parallel maps: each of its maps is parallel already, or it has none"
    if any(stage.ops & {"PyFunc", "EagerPyFunc", "PyFuncStateless"} for stage in maps):
        return "parallel maps: Python code in a map runs one call at a time, however many are asked for"
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = True
    how = "give its map(...) num_parallel_calls=tf.data.AUTOTUNE"
    return Variant("parallel maps", dataset.with_options(options), how)


def _cached(dataset: tf.data.Dataset, stages: list[pipeline.Stage], affordable: int) -> Variant | str:
    size = _bytes(dataset)
    if any(stage.kind in ("Cache", "MemoryCache") for stage in stages):
        return "cache: it has one"
    if size is None:
        return "cache: the size of its batches is not known beforehand"
    count = min(affordable, _MOST // max(size, 1), *_known(dataset))
    if count < 1:
        return f"cache: one batch takes {size >> 20} MB"
    return Variant("cache", dataset.take(count).cache(), _how_to_cache(stages), warm_up=count)


def _known(dataset: tf.data.Dataset) -> list[int]:
    count = int(dataset.cardinality())
    return [count] if count >= 0 else []


def _how_to_cache(stages: list[pipeline.Stage]) -> str:
    if any(stage.kind.startswith(_RANDOM) or any("Random" in op for op in stage.ops) for stage in stages):
        return "keep what is decoded with .cache(), or cache=True of the builders, before what is random comes"
    return "end with .cache() before .prefetch(...), if all batches fit into memory"


def _bytes(dataset: tf.data.Dataset) -> int | None:
    """Of a batch; an open dimension is the batch's own, taken from the pipeline, or not known."""
    first: Any = next(iter(dataset), None)
    if first is None or not all(isinstance(each, tf.Tensor) for each in tf.nest.flatten(first)):
        return None
    return sum(int(tf.size(each)) * (each.dtype.size or 1) for each in tf.nest.flatten(first))
