"""Every record read once: which cannot be, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.core.text import clean
from mlflow_resilience.doctor.finding import Finding
from mlflow_resilience.training import pristine
from mlflow_resilience.training.records import NoRecords, Records

_THREADS = 8
_SHOWN = 20

Told = Callable[[int, int], None]  # records or batches read, and how many of them cannot be


def scan(data: Any, name: str, tell: Told) -> Iterator[Finding]:
    """The records of ``data`` that cannot be read. Arrays are read already."""
    if isinstance(data, tf.data.Dataset):
        bad = _of_pipeline(data, tell)
    elif isinstance(data, keras.utils.PyDataset):
        bad = _of_py_dataset(data, tell)
    else:
        return
    if bad:
        shown = "; ".join(f"{identity}: {error}" for identity, error in bad[:_SHOWN])
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        yield Finding(
            severity="error",
            check="unreadable",
            text=f"{len(bad)} of the {name} records cannot be read: {shown}{more}",
            remedy="take them out or write them anew; training would leave them out and say so",
        )


def _of_pipeline(data: tf.data.Dataset, tell: Told) -> list[tuple[str, str]]:
    try:
        records = Records(data, iterators=1, taken=0)
    except (NoRecords, pristine.NotCopyable):
        return _of_iterator(data, tell)
    bad: list[tuple[str, str]] = []
    read = 0
    while True:
        try:
            batch = records.next_batch()
        except StopIteration:
            return bad
        bad += [(record.identity, record.error) for record in records.bad]
        read += len(records.bad) + (0 if batch is None else int(tf.shape(tf.nest.flatten(batch)[0])[0]))
        records.bad = []
        tell(read, len(bad))


def _of_iterator(data: tf.data.Dataset, tell: Told) -> list[tuple[str, str]]:
    """Of a pipeline whose records cannot be told apart: its batches."""
    bad: list[tuple[str, str]] = []
    iterator, at = iter(data), 0
    while True:
        try:
            next(iterator)
        except StopIteration:
            return bad
        except tf.errors.OpError as error:
            bad.append((f"batch {at}", clean(str(error))[:300]))
        at += 1
        tell(at, len(bad))


def _of_py_dataset(data: keras.utils.PyDataset, tell: Told) -> list[tuple[str, str]]:
    def read(index: int) -> tuple[str, str] | None:
        try:
            data[index]
        except Exception as error:  # of the user's code
            return f"batch {index}", clean(f"{type(error).__name__}: {error}")[:300]
        return None

    bad: list[tuple[str, str]] = []
    with ThreadPoolExecutor(_THREADS) as threads:
        for number, found in enumerate(threads.map(read, range(data.num_batches or 0)), start=1):
            bad += [found] if found is not None else []
            tell(number, len(bad))
    return bad
