"""What is done about a batch that failed before the same step is tried again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.core.action import Action, Quarantine
from mlflow_resilience.core.decision import Decision
from mlflow_resilience.core.text import clean
from mlflow_resilience.training import pristine
from mlflow_resilience.training.cursor import Cursor
from mlflow_resilience.training.data_position import DataPosition
from mlflow_resilience.training.records import Bad, NoRecords, batch_size, identities
from mlflow_resilience.training.replicas import joined, parts


def asks(decision: Decision, action: type[Action]) -> bool:
    """Whether an action of this kind was decided."""
    return any(isinstance(each, action) for each in decision.actions)


def mendable(cursor: Cursor) -> int | None:
    """The records in a batch of this pipeline; None where a failed read cannot be repeated, or its records not told
    apart."""
    try:
        return batch_size(pristine.graph_of(cursor.dataset), cursor.dataset.element_spec)
    except (NoRecords, pristine.NotCopyable, tf.errors.OpError, ValueError):
        return None


def mend_data(cursor: Cursor, position: DataPosition, decision: Decision) -> None:
    """Bring a pipeline whose read failed back to the failed batch: record by record, if some are to be left out."""
    if asks(decision, Quarantine):
        cursor.go_by_records(position)
    else:
        cursor.reopen(position)


def named(cursor: Cursor, position: DataPosition, bad: list[Bad]) -> list[Bad]:
    """The same records by what they are made of (a path, a number), where their pipeline tells."""
    if not bad:
        return bad
    try:
        names = identities(cursor.dataset, iterators=position.iterators, indices=[each.index for each in bad])
    except (NoRecords, pristine.NotCopyable, tf.errors.OpError, ValueError, AttributeError):
        return bad
    return [replace(each, identity=names.get(each.index, each.identity)) for each in bad]


def without_bad(model: keras.Model, batch: Any, first: int) -> tuple[Any, list[Bad]]:
    """The records of ``batch`` that the model and its loss accept, and those that they refuse.

    Each record is tried alone, in a test step; ``first`` numbers the batch's first record within its epoch. Where none
    or all (of a replica) are refused the batch is as it was: then it is not the records.
    """
    whole, good, bad = parts(batch), [], []
    for part in whole:
        fine = []
        for index in range(_size(part)):
            record = tf.nest.map_structure(lambda tensor, at=index: tensor[at : at + 1], part)
            try:
                model.distribute_strategy.run(model.test_step, args=(record,))
                fine.append(index)
            except (tf.errors.OpError, ValueError) as error:
                bad.append(Bad(first + index, f"record {first + index} of the epoch", clean(str(error))[:500]))
        good.append(fine)
        first += _size(part)
    if not bad or not all(good):
        return batch, []
    chosen = [
        tf.nest.map_structure(lambda tensor, at=at: tf.gather(tensor, at), part)
        for part, at in zip(whole, good, strict=True)
    ]
    return joined(batch, chosen), bad


def _size(batch: Any) -> int:
    return int(tf.shape(tf.nest.flatten(batch)[0])[0])
