"""What the checks look at: records that were read, and what the model expects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Shape = tuple[int | None, ...]  # of one record; None is any


@dataclass(frozen=True, kw_only=True)
class Column:
    """One input, target or weight. ``values`` are those of the records that were looked at, one a row."""

    name: str
    values: np.ndarray

    @property
    def shape(self) -> Shape:
        return self.values.shape[1:]

    @property
    def is_number(self) -> bool:
        return self.values.dtype.kind in "fiub"


@dataclass(frozen=True, kw_only=True)
class Split:
    """Training or validation data. ``steps`` is how many batches there are, None where only reading would tell, and
    infinity where they never end; ``records`` likewise. ``whole`` when every record was looked at."""

    name: str
    inputs: tuple[Column, ...]
    targets: tuple[Column, ...]
    weights: tuple[Column, ...]
    steps: float | None
    records: float | None
    batch_size: int | None
    whole: bool

    @property
    def looked_at(self) -> int:
        return len(self.inputs[0].values) if self.inputs else 0


@dataclass(frozen=True, kw_only=True)
class Head:
    """One output of the model and the loss on it. ``loss`` is in snake case; ``from_logits`` is what the loss says."""

    name: str
    shape: Shape
    activation: str
    loss: str
    from_logits: bool | None

    @property
    def classes(self) -> int | None:
        return self.shape[-1] if self.shape else None


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the model takes and gives; empty where it does not say so before it is called."""

    inputs: tuple[tuple[str, Shape], ...] = ()
    heads: tuple[Head, ...] = ()
    layers: frozenset[str] = frozenset()  # class names of all layers
