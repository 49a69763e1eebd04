"""What may be asked for, and what is said of what was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.compression import Wanted
from mlflow_resilience.compression.measured import Measured, Table
from mlflow_resilience.errors import UsageError
from mlflow_resilience.parameters import Parameters


def test_words_are_read() -> None:
    """Each with its values; nothing is wanted by default."""
    assert Wanted.parse("prune:0.5,int8") == Wanted(prune=0.5, epochs=4, int8=True)
    assert Wanted.parse("prune:0.8:2,litert,qat") == Wanted(prune=0.8, epochs=2, litert=True, qat=True)
    assert not Wanted.parse("none") and Wanted.parse("qat")
    assert not Parameters().smaller()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("foo", "compress=foo: 'foo' is not known here; known are prune:SHARE[:EPOCHS], int8, litert, qat"),
        ("prune:1.5", "'prune:1.5' cannot be read: prune:SHARE[:EPOCHS] is needed"),
        ("prune", "prune:SHARE[:EPOCHS] is needed"),
        ("prune:0.5:0", "prune:SHARE[:EPOCHS] is needed"),
        ("int8,int8", "int8 is there twice"),
        ("", "is not known here"),
    ],
)
def test_what_cannot_be_read_is_one_line(text: str, told: str) -> None:
    """It says what may stand there."""
    with pytest.raises(UsageError) as caught:
        Parameters.from_text({"compress": text})
    assert told in str(caught.value) and "\n" not in str(caught.value)


def row(name: str, **more: Any) -> Measured:
    known = {"metrics": {"accuracy": 0.9}, "records": 10, "bytes": 2000, "gzip_bytes": 1000, "latency_ms": 2.0}
    return Measured(name=name, path=Path(name), latency_p95_ms=3.0, runs=7, **{**known, **more})


def test_the_table_holds_each_against_the_original() -> None:
    """As rows of one table, and as lines."""
    pruned = row("pruned", metrics={"accuracy": 0.89}, gzip_bytes=600, note="half", sparsity={"a": 0.5, "b": 0.7})
    table = Table(rows=(row("original"), pruned), statements=("not made: qat",))
    made = table.to_dict()
    assert made["columns"][:4] == ["model", "accuracy", "records", "bytes"]
    assert [each[0] for each in made["data"]] == ["original", "pruned"]
    assert made["data"][1][made["columns"].index("sparsity")] == pytest.approx(0.6)
    assert table.lines() == [
        "pruned: accuracy 0.89 (0.9), 2 kB (2), gzip 1 kB (1), 2 ms a record (2); half",
        "not made: qat",
    ]
