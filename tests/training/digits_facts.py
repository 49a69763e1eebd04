"""What there is to know about the default recipe, as JSON: run in a process of its own, for TensorFlow's sake."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.parameters import Parameters
from mlflow_resilience.recipes import digits


def digest(batch: Iterable[tf.Tensor]) -> str:
    return hashlib.sha256(b"".join(part.numpy().tobytes() for part in batch)).hexdigest()


def epochs(data: tf.data.Dataset, count: int) -> list[list[str]]:
    return [[digest(batch) for batch in data] for _ in range(count)]


def training(seed: int = 0) -> tf.data.Dataset:
    return digits.load_data({"seed": seed, "batch_size": 32})[0]


def pipeline() -> dict[str, Any]:
    whole = epochs(training(), 3)
    undisturbed = training()
    list(undisturbed)
    cut = iter(undisturbed)
    for _ in range(17):
        next(cut)
    with tempfile.TemporaryDirectory() as folder:
        path = tf.train.Checkpoint(iterator=cut).write(f"{folder}/iterator")
        restored_data = training()
        iter(restored_data)
        restored = iter(restored_data)
        tf.train.Checkpoint(iterator=restored).read(path)
        restored_rest = [digest(batch) for batch in restored]
    replayed_data = training()
    iter(replayed_data)  # made, never read: it counts all the same
    replayed = iter(replayed_data)
    for _ in range(17):
        next(replayed)
    return {
        "repeats": epochs(training(), 3) == whole,
        "epochs differ": len({batch for epoch in whole for batch in epoch}) == sum(map(len, whole)),
        "seeds differ": epochs(training(seed=1), 1)[0] != whole[0],
        "restored in mid-epoch": restored_rest == whole[1][17:],
        "and the epoch after": [digest(batch) for batch in restored_data] == whole[2],
        "replayed in mid-epoch": [digest(batch) for batch in replayed] == whole[1][17:],
        "steps": int(training().cardinality()),
    }


def fitted() -> dict[str, Any]:
    parameters = Parameters()
    keras.utils.set_random_seed(parameters.seed)
    params = parameters.for_recipe()
    train, validation = digits.load_data(params)
    model = digits.build_model(params)
    history = model.fit(train, validation_data=validation, epochs=parameters.epochs, verbose=0)
    weights = b"".join(variable.numpy().tobytes() for variable in model.variables)
    return {"val_accuracy": history.history["val_accuracy"], "weights": hashlib.sha256(weights).hexdigest()}


if __name__ == "__main__":
    print(json.dumps({"pipeline": pipeline, "fitted": fitted}[sys.argv[1]]()))
