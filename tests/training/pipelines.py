"""Small trainings, one for each way in which data reaches `fit`; what plain Keras makes of them is the reference."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

from mlflow_resilience.pipelines import arrays as built_arrays
from mlflow_resilience.pipelines import images
from mlflow_resilience.training.reshuffling import EachEpoch

RECORDS, BATCH, EPOCHS = 76, 8, 3  # ten batches an epoch, the last one of four records
STEPS = 10


def arrays(seed: int = 0, records: int = RECORDS) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(seed)
    return drawn.normal(size=(records, 4, 4, 1)).astype("float32"), drawn.integers(0, 3, size=records).astype("int32")


def validation() -> tuple[np.ndarray, np.ndarray]:
    return arrays(seed=1, records=22)


def slices() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays()).shuffle(40)


def batched(data: tf.data.Dataset) -> dict[str, Any]:
    held_out = tf.data.Dataset.from_tensor_slices(validation()).batch(BATCH)
    return {"x": data, "validation_data": held_out}


def _slices() -> dict[str, Any]:
    return batched(slices().batch(BATCH).prefetch(2))


def _stateless() -> dict[str, Any]:
    def turn(record: tuple[Any, Any], seed: Any) -> tuple[Any, Any]:
        image, label = record
        return tf.image.stateless_random_flip_left_right(image, seed=(seed, seed + 1)), label

    seeds = tf.data.Dataset.random(rerandomize_each_iteration=True)
    return batched(tf.data.Dataset.zip((slices(), seeds)).map(turn, num_parallel_calls=2).batch(BATCH))


def _stateful_ops() -> dict[str, Any]:
    def turn(image: Any, label: Any) -> tuple[Any, Any]:
        return tf.image.random_brightness(tf.image.random_flip_left_right(image), 0.2), label

    return batched(slices().map(turn).batch(BATCH))


def _generator() -> dict[str, Any]:
    x, y = arrays()

    def records() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for index in np.random.permutation(RECORDS):
            yield x[index] + np.float32(random.gauss(0, 0.1)), y[index]

    specs = (tf.TensorSpec((4, 4, 1), tf.float32), tf.TensorSpec((), tf.int32))
    return batched(tf.data.Dataset.from_generator(records, output_signature=specs).batch(BATCH))


def _arrays() -> dict[str, Any]:
    x, y = arrays()
    return {"x": x, "y": y, "batch_size": BATCH, "validation_data": validation()}


def _reshuffled() -> dict[str, Any]:
    return {**_arrays(), "shuffle": EachEpoch(3)}


class Shuffled(keras.utils.PyDataset):
    """Draws from Python's and from NumPy's random state, and keeps its order in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.y = arrays()
        self.order = np.arange(RECORDS)
        self.epochs_seen = 0

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = self.order[index * BATCH : (index + 1) * BATCH]
        noise = np.random.normal(scale=0.1, size=(len(chosen), 4, 4, 1)) + random.random() * self.epochs_seen
        return (self.x[chosen] + noise).astype("float32"), self.y[chosen]

    def on_epoch_end(self) -> None:
        np.random.shuffle(self.order)
        self.epochs_seen += 1


def _py_dataset() -> dict[str, Any]:
    return {"x": Shuffled(), "validation_data": validation(), "validation_batch_size": BATCH}


def _unknown() -> dict[str, Any]:
    return batched(slices().filter(lambda image, label: label >= 0).batch(BATCH))


def _repeated() -> dict[str, Any]:
    # Batches reach over the end of the records: an epoch of Keras begins in the middle of one of the data.
    return {**batched(slices().repeat().batch(BATCH)), "steps_per_epoch": STEPS}


def _built_images() -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp())
    for index, (picture, label) in enumerate(zip(*arrays(), strict=True)):
        (folder / str(label)).mkdir(exist_ok=True)
        pixels = np.clip(picture[..., 0] * 60 + 120, 0, 255).astype("uint8")
        Image.fromarray(pixels).save(folder / str(label) / f"{index:03d}.png")
    # The cache lies beside the folders of the classes, and hidden: it is no class.
    words = "flip,rotate:0.1,zoom:0.1,shift:0.2,noise:0.05"
    data = images(
        folder, size=(4, 4), channels=1, batch_size=BATCH, seed=3, validation=0, augment=words, cache=folder / ".cache"
    )
    return batched(data.train)


def _built_arrays() -> dict[str, Any]:
    data = built_arrays(*arrays(), batch_size=BATCH, seed=3, validation=0, augment="flip:both,noise:0.1")
    return batched(data.train)


PIPELINES: dict[str, Callable[[], dict[str, Any]]] = {
    "slices": _slices,
    "stateless": _stateless,
    "stateful_ops": _stateful_ops,
    "generator": _generator,
    "arrays": _arrays,
    "reshuffled": _reshuffled,
    "py_dataset": _py_dataset,
    "unknown": _unknown,
    "repeated": _repeated,
    "built_images": _built_images,
    "built_arrays": _built_arrays,
    "three_steps_per_execution": _slices,
    "eager": _slices,  # no tracing: for many short trainings in one process
}


class Cooling(keras.callbacks.Callback):
    """A user's callback whose plain attributes and random draws decide the learning rate."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = 0.01
        self.seen: list[float] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.seen.append((logs or {})["loss"])
        self.rate *= 0.9 + 0.1 * random.random()
        self.model.optimizer.learning_rate = self.rate / len(self.seen)


def model(**compiling: Any) -> keras.Model:
    layers = [
        keras.layers.Input((4, 4, 1)),
        keras.layers.Flatten(),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(3),
    ]
    made = keras.Sequential(layers)
    made.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **compiling,
    )
    return made


def training(name: str) -> tuple[keras.Model, dict[str, Any]]:
    """The model and the arguments of `fit`, after the seed was set: as a script would make them."""
    keras.utils.set_random_seed(11)
    made = model(steps_per_execution=3 if name == "three_steps_per_execution" else 1, run_eagerly=name == "eager")
    call = {**PIPELINES[name](), "epochs": EPOCHS, "verbose": 0, "callbacks": [Cooling()]}
    return made, call
