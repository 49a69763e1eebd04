"""Arrays as pipelines."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from mlflow_resilience.errors import UsageError
from mlflow_resilience.pipelines import arrays
from mlflow_resilience.training import reproducible
from mlflow_resilience.training.records import identities

X = np.arange(40, dtype="float32").reshape(20, 2)
Y = np.arange(20) % 2


def test_every_row_comes_once_an_epoch_in_a_new_order() -> None:
    """Rows keep their targets and weights; a share of each class is held out."""
    data = arrays(X, Y, X[:, 0], batch_size=4, validation=0.2, seed=1)
    epochs = [[np.concatenate(part) for part in zip(*data.train, strict=True)] for _ in range(2)]
    held = [np.concatenate(part) for part in zip(*data.validation, strict=True)]
    for x, y, weight in (*epochs, held):
        assert np.array_equal(x[:, 0], weight) and np.array_equal(y, (weight / 2) % 2)
    assert sorted([*epochs[0][2], *held[2]]) == sorted(X[:, 0])
    assert not np.array_equal(epochs[0][2], epochs[1][2])
    assert list(np.bincount(held[1])) == [2, 2]
    assert reproducible.findings(data.train) == []


def test_a_row_is_known_by_its_number() -> None:
    """The number is the row's own, wherever it comes in an epoch."""
    data = arrays(X, Y, batch_size=4, validation=0.0, seed=1)
    names = identities(data.train, iterators=1, indices=range(20))
    rows = np.concatenate([x[:, 0] for x, _ in data.train]) / 2
    assert [names[i] for i in range(20)] == [f"record {int(row)}" for row in rows]


def test_what_cannot_be_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths that differ, nothing at all, pictures that are none, and too much."""
    with pytest.raises(UsageError, match="have 20, 19 rows"):
        arrays(X, Y[:-1])
    with pytest.raises(UsageError, match="not empty"):
        arrays(X[:0], Y[:0])
    with pytest.raises(UsageError, match="pictures"):
        arrays(X, Y, augment="flip")
    monkeypatch.setattr(sys.modules[arrays.__module__], "LARGEST", 100)
    with pytest.raises(UsageError, match="more than 1 GiB"):
        arrays(X, Y)
