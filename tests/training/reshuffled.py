"""Arrays in another order in each epoch: what runs in the children."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from mlflow_resilience import worker
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.training import reshuffling
from mlflow_resilience.training.batches import Feed
from mlflow_resilience.training.reshuffling import EachEpoch


def orders(folder: Path) -> list[list[list[int]]]:
    """The records of each batch of three epochs, twice over with one seed, and once with another."""
    return [_epochs(5), _epochs(5), _epochs(6)]


def _epochs(seed: int) -> list[list[int]]:
    x = np.arange(10)
    arguments = {"x": x, "y": {"twice": 2 * x}, "batch_size": 4, "shuffle": EachEpoch(seed)}
    data = Feed(arguments, training=True).get_tf_dataset()
    assert int(data.cardinality()) == 3
    epochs = [[(record, twice["twice"]) for record, twice in data] for _ in range(3)]
    assert all((2 * record == twice).numpy().all() for epoch in epochs for record, twice in epoch)
    return [[record.numpy().tolist() for record, _ in epoch] for epoch in epochs]


def asked_for(folder: Path) -> dict[str, Any]:
    """What a recipe's data are given to `fit` as."""
    x = np.zeros((4, 2), "float32")
    sparse = tf.sparse.from_dense(x)
    given = {"arrays": (x, x), "weighted": (x, x, x[:, 0]), "sparse": (sparse, x)}
    shuffles = {name: worker._training(data, Parameters(seed=7))["shuffle"] for name, data in given.items()}
    pipeline = tf.data.Dataset.from_tensors((x, x))
    shuffles["pipeline"] = worker._training(pipeline, Parameters())["shuffle"]
    return {
        name: shuffle.seed if isinstance(shuffle, reshuffling.EachEpoch) else shuffle
        for name, shuffle in shuffles.items()
    }
