"""How the records divide into batches and steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mlflow_resilience.doctor.facts import Expected, Split
from mlflow_resilience.doctor.finding import Finding


def steps(split: Split, epochs: int) -> Iterator[Finding]:
    """How many steps there are, and whether they end."""
    if split.steps is None:
        yield Finding(
            severity="note",
            check="steps",
            text=f"how many batches the {split.name} data have is known only once they were read",
            remedy="say so with tf.data.experimental.assert_cardinality, for a true progress display",
        )
    elif math.isinf(split.steps):
        yield Finding(
            severity="error",
            check="endless",
            text=f"the {split.name} data never end, and a recipe has no steps_per_epoch: its first epoch would not end",
            remedy="leave `repeat()` out, or end it with `take(n)`",
        )
    elif split.name == "training":
        total = f"{int(split.steps)} steps an epoch, {int(split.steps) * epochs} in {epochs} epochs"
        yield Finding(severity="note", check="steps", text=f"{total}{_sizes(split)}")


def last_batch(split: Split, expected: Expected) -> Iterator[Finding]:
    """A last batch of one record has no statistics."""
    if _left_over(split) == 1 and split.batch_size != 1 and "BatchNormalization" in expected.layers:
        yield Finding(
            severity="warning",
            check="last_batch",
            text=f"the last batch of the {split.name} data has one record, of which there is no variance",
            remedy="use drop_remainder=True, or another batch size",
        )


def _sizes(split: Split) -> str:
    if split.batch_size is None or split.records is None or math.isinf(split.records):
        return ""
    left = _left_over(split)
    ends = f", the last one of {left}" if left else ""
    return f": {int(split.records)} records in batches of {split.batch_size}{ends}"


def _left_over(split: Split) -> int:
    if split.batch_size is None or split.records is None or math.isinf(split.records):
        return 0
    return int(split.records) % split.batch_size
