"""Accuracy, size and latency, measured alike for every model."""

from __future__ import annotations

import gzip
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.compression.measured import Measured
from mlflow_resilience.errors import UsageError

Predict = Callable[[Any], Any]
Batch = tuple[Any, ...]

RECORDS = 10_000  # at most: a LiteRT model reads them one by one
_WARM_UP, _RUNS, _SECONDS = 10, 200, 3.0


def batches(data: Any, batch_size: int = 32) -> Iterator[Batch]:
    """Batches ``(x, y[, weight])`` of a data set, a PyDataset or a tuple of arrays. Raises UsageError for others."""
    if isinstance(data, tf.data.Dataset):
        yield from data
    elif isinstance(data, keras.utils.PyDataset):
        yield from (data[index] for index in range(len(data)))
    elif isinstance(data, tuple):
        columns = [each for each in data if each is not None]
        count = len(tf.nest.flatten(columns[0])[0])
        for at in range(0, count, batch_size):
            yield tuple(tf.nest.map_structure(lambda each, at=at: each[at : at + batch_size], each) for each in columns)
    else:
        raise UsageError(f"compress: data of {type(data).__name__} cannot be read by it")


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """The data that all are measured on, and the trained model whose metrics they are measured by."""

    model: keras.Model
    data: Any

    def measure(self, name: str, path: Path, predict: Predict, note: str = "", sparsity: Any = None) -> Measured:
        """Of a model that lies at ``path`` and answers by ``predict``."""
        metrics, records = self._metrics(predict)
        median, most, runs = latency(predict, tf.nest.map_structure(lambda each: each[:1], self._first()[0]))
        return Measured(
            name=name,
            path=path,
            metrics=metrics,
            records=records,
            bytes=path.stat().st_size,
            gzip_bytes=len(gzip.compress(path.read_bytes(), mtime=0)),
            latency_ms=median,
            latency_p95_ms=most,
            runs=runs,
            note=note,
            sparsity=sparsity or {},
        )

    def _first(self) -> Batch:
        return next(iter(batches(self.data)))

    def _metrics(self, predict: Predict) -> tuple[dict[str, float], int]:
        self.model.reset_metrics()
        records, logs = 0, {}
        for x, y, *rest in batches(self.data):
            size = len(tf.nest.flatten(x)[0])
            answer = tf.nest.map_structure(tf.convert_to_tensor, predict(x))
            weight = rest[0] if rest else None
            self.model._loss_tracker.update_state(self.model.compute_loss(x, y, answer, weight), sample_weight=size)
            logs = self.model.compute_metrics(x, y, answer, weight)
            records += size
            if records >= RECORDS:
                break
        found = {name: float(value) for name, value in logs.items()}
        self.model.reset_metrics()
        return found, records


def of_keras(model: keras.Model) -> Predict:
    """A Keras model's answers, by a compiled function."""
    run = tf.function(lambda x: model(x, training=False), reduce_retracing=True)
    return lambda x: run(tf.nest.map_structure(tf.convert_to_tensor, x))


def latency(predict: Predict, one: Any) -> tuple[float, float, int]:
    """Median and 95th percentile in milliseconds of one record, and how often it was measured: for three seconds at
    most."""
    for _ in range(_WARM_UP):
        predict(one)
    found: list[float] = []
    end = time.perf_counter() + _SECONDS
    for _ in islice(iter(int, 1), _RUNS):
        begun = time.perf_counter()
        tf.nest.map_structure(np.asarray, predict(one))
        found.append(1e3 * (time.perf_counter() - begun))
        if time.perf_counter() > end:
            break
    return statistics.median(found), float(np.quantile(found, 0.95)), len(found)
