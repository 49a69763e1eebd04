"""Where a pipeline is, as numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class DataPosition:
    """Where a pipeline is. ``num_batches`` and ``steps_seen`` are Keras's own counts, which outlive an epoch."""

    iterators: int = 0  # made so far, the current one included
    taken: int = 0  # batches taken from the current iterator
    step: int = 0  # steps done in the current epoch
    num_batches: int | None = None  # learned where the cardinality is unknown
    steps_seen: int = 0
    exhausted: bool = False  # the epoch's last batch has been taken
    random: dict[str, Any] | None = None  # Python's and NumPy's state when the current iterator was made
    variables: list[Any] = field(default_factory=list)  # that the pipeline uses, likewise
    attributes: dict[str, Any] = field(default_factory=dict)  # of a PyDataset, when the epoch began
