"""Trainings that meet a fault: what runs in the children."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience import testing
from mlflow_resilience.core.backoff import Backoff
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.fitting import Checkpoints, run_fit
from mlflow_resilience.training.records import Records
from tests.training.fits import job_in

RECORDS, BATCH, EPOCHS = 48, 8, 2
_FAST = Backoff(first_seconds=0.01, max_seconds=0.02)


def model(dropout: bool = False) -> keras.Model:
    layers = [keras.Input((4,)), keras.layers.Dense(8, activation="relu")]
    layers += [keras.layers.Dropout(0.5)] if dropout else []
    made = keras.Sequential([*layers, keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return made


def arrays() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(size=(RECORDS, 4)).astype("float32"), random.integers(0, 3, RECORDS)


def fit(folder: Path, call: dict[str, Any], faults: str = "none", policy: Policy | None = None, **more: Any) -> Any:
    """Ours, in the job of ``folder``; what came out of it."""
    made = model(**more)
    checkpoints = Checkpoints(local="2steps", log_models=False)
    call = {"epochs": EPOCHS, "verbose": 0, **call}
    ended = run_fit(
        job_in(folder),
        made,
        call,
        policy=policy or Policy(backoff=_FAST),
        checkpoints=checkpoints,
        faults=testing.parse(faults),
    )
    assert ended.history is not None
    weights = [np.asarray(weight).tolist() for weight in made.get_weights()]
    return {
        "weights": weights,
        "iterations": int(made.optimizer.iterations.numpy()),
        "loss": ended.history.history["loss"],
        "epochs": ended.history.epoch,
    }


def undisturbed(folder: Path, dropout: bool = False) -> Any:
    keras.utils.set_random_seed(1)
    x, y = arrays()
    return fit(folder, {"x": x, "y": y, "batch_size": BATCH}, dropout=dropout)


def struck(folder: Path, faults: str, dropout: bool = False, strict: bool = False) -> Any:
    keras.utils.set_random_seed(1)
    x, y = arrays()
    policy = Policy.strict() if strict else None
    return fit(folder, {"x": x, "y": y, "batch_size": BATCH}, faults, policy, dropout=dropout)


def files(folder: Path, broken: list[int], faults: str = "none") -> Any:
    """Records from files, of which some are no pictures."""
    keras.utils.set_random_seed(1)
    images = folder / "images"
    images.mkdir(exist_ok=True)
    for number in range(RECORDS):
        pixels = np.full((2, 2, 1), number % 3 * 100, "uint8")
        data = b"this is no picture" if number in broken else tf.io.encode_png(pixels).numpy()
        (images / f"{number:03d}.png").write_bytes(data)

    def read(path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = tf.io.decode_png(tf.io.read_file(path), channels=1)
        return tf.reshape(tf.cast(tf.ensure_shape(image, (2, 2, 1)), tf.float32), (4,)) / 255.0, label

    paths = sorted(str(path) for path in images.glob("*.png"))
    labels = [number % 3 for number in range(RECORDS)]
    records = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(RECORDS)
    return fit(folder, {"x": records.map(read, num_parallel_calls=2).batch(BATCH).prefetch(2)}, faults)


def labels(folder: Path, wrong: list[int]) -> Any:
    """Arrays of which some labels are none of the classes."""
    keras.utils.set_random_seed(1)
    x, y = arrays()
    y[wrong] = 7
    return fit(folder, {"x": x, "y": y, "batch_size": BATCH, "shuffle": False})


def shuffled_labels(folder: Path, wrong: int) -> Any:
    """Records by name, shuffled anew each epoch, of which the label of one is none of the classes."""
    keras.utils.set_random_seed(1)
    x, y = arrays()
    y[wrong] = 7
    names = [f"record-{number}" for number in range(RECORDS)]
    records = tf.data.Dataset.from_tensor_slices((names, x, y)).shuffle(RECORDS)
    return fit(folder, {"x": records.map(lambda name, row, label: (row, label)).batch(BATCH)})


def away(folder: Path, times: int) -> Any:
    """A file system that does not answer, so many times, in the middle of the second epoch."""
    keras.utils.set_random_seed(1)
    x, y = arrays()
    left = [times]
    seen = [0]

    def read(row: np.ndarray) -> np.ndarray:
        seen[0] += 1
        if seen[0] > RECORDS + 20 and left[0] > 0:
            left[0] -= 1
            raise OSError(5, os.strerror(5))
        return row

    records = tf.data.Dataset.from_tensor_slices((x, y)).map(
        lambda row, label: (tf.ensure_shape(tf.numpy_function(read, [row], tf.float32), (4,)), label)
    )
    return fit(folder, {"x": records.batch(BATCH)})


def looked_at(folder: Path, looks: int) -> Any:
    """A shuffled pipeline that was looked at before training, struck in the second epoch."""
    keras.utils.set_random_seed(1)
    records = tf.data.Dataset.from_tensor_slices(arrays()).shuffle(RECORDS).batch(BATCH)
    for _ in range(looks):
        next(iter(records))
    return fit(folder, {"x": records}, "raise@9")


def past_the_end(folder: Path) -> Any:
    """Record by record from the end of an epoch whose last batch was smaller."""
    records = Records(tf.data.Dataset.range(10).batch(4), iterators=1, taken=3)
    try:
        records.next_batch()
    except StopIteration:
        return "ended"
    return "went on"
