"""What was measured of a model and of those that were made from it, and the table of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One model. ``metrics`` are Keras's own, on ``records`` records; sizes are bytes of the file at ``path``, as it is
    and packed by gzip (zeros show only there); latencies are milliseconds of one record, over ``runs`` runs after a
    warm-up. ``sparsity`` is the share of zeros in each kernel that was pruned."""

    name: str
    path: Path
    metrics: Mapping[str, float]
    records: int
    bytes: int
    gzip_bytes: int
    latency_ms: float
    latency_p95_ms: float
    runs: int
    note: str = ""
    sparsity: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The original first, then what was made of it; ``statements`` say what was not made, and why, and on which data
    it was all measured."""

    rows: tuple[Measured, ...]
    statements: tuple[str, ...] = ()

    @property
    def original(self) -> Measured:
        return self.rows[0]

    @property
    def made(self) -> tuple[Measured, ...]:
        """All but the original."""
        return self.rows[1:]

    def to_dict(self) -> dict[str, Any]:
        """In the form of ``MlflowClient.log_table``."""
        names = [name for row in self.rows[:1] for name in row.metrics]
        columns = ["model", *names, "records", *_NUMBERS, "sparsity", "note"]
        return {"columns": columns, "data": [_cells(row, names) for row in self.rows]}

    def lines(self) -> list[str]:
        """Each model in a line, held against the original; then the statements."""
        return [*(_line(row, self.original) for row in self.made), *self.statements]


_NUMBERS = ("bytes", "gzip_bytes", "latency_ms", "latency_p95_ms", "runs")


def _cells(row: Measured, names: list[str]) -> list[Any]:
    sparsity = sum(row.sparsity.values()) / len(row.sparsity) if row.sparsity else None
    numbers = [getattr(row, name) for name in _NUMBERS]
    return [row.name, *(row.metrics.get(name) for name in names), row.records, *numbers, sparsity, row.note]


def _line(row: Measured, original: Measured) -> str:
    figures = [f"{name} {row.metrics[name]:.4g} ({original.metrics[name]:.4g})" for name in row.metrics]
    sizes = f"{row.bytes / 1e3:.0f} kB ({original.bytes / 1e3:.0f}), gzip {row.gzip_bytes / 1e3:.0f} kB"
    packed = f"{sizes} ({original.gzip_bytes / 1e3:.0f})"
    pace = f"{row.latency_ms:.3g} ms a record ({original.latency_ms:.3g})"
    return f"{row.name}: {', '.join([*figures, packed, pace])}{f'; {row.note}' if row.note else ''}"
