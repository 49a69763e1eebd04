"""The default recipe: a small CNN learns handwritten digits from PNG files on disk.

The 1797 images come with scikit-learn. They are written once as PNG files, one folder a class, and read back as any
image data set is: list, decode, resize, augment, shuffle, batch, prefetch. Augmentation is keyed by seed, epoch and
record, so that the job repeats itself bit for bit however many threads decode.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

SIZE = 16
CLASSES = 10
VALIDATION_SHARE = 5  # one record in so many is held out


def build_model(params: Mapping[str, Any]) -> keras.Model:
    """A compiled convolutional network of about 150,000 weights."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5, seed=int(params.get("seed", 0))),
            layers.Dense(CLASSES, activation="softmax", dtype="float32"),  # whatever the precision of the rest
        ],
        name="digits",
    )
    model.compile(
        optimizer=keras.optimizers.Adam(float(params.get("learning_rate", 2e-3))),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def load_data(params: Mapping[str, Any]) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Training data, shuffled and augmented anew each epoch, and validation data as they are."""
    seed, batch_size = int(params.get("seed", 0)), int(params.get("batch_size", 32))
    files = sorted(str(path) for path in image_folder().glob("*/*.png"))
    held_out = [path for path in files if _number(path) % VALIDATION_SHARE == 0]
    kept = [path for path in files if _number(path) % VALIDATION_SHARE]
    return _training(kept, seed, batch_size), _plain(held_out, batch_size)


def fingerprint(params: Mapping[str, Any]) -> str:
    """What tells these data from others."""
    return f"digits-v1-{SIZE}"


def _training(files: list[str], seed: int, batch_size: int) -> tf.data.Dataset:
    paths, labels = tf.constant(files), tf.constant([_label(path) for path in files])

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
        order = tf.random.experimental.stateless_shuffle(tf.range(len(files), dtype=tf.int64), [number, seed])
        records = tf.data.Dataset.from_tensor_slices((order, tf.gather(paths, order), tf.gather(labels, order)))
        return records.map(lambda index, path, label: (tf.stack([number, index]), path, label))

    # Each epoch draws a number when its iterator is made, and all that is random follows from it: no operation has a
    # state of its own, so an iterator can be saved in mid-epoch, and one that was made but never read counts too.
    epoch_numbers = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).take(1)
    shuffled = epoch_numbers.flat_map(one_epoch).apply(tf.data.experimental.assert_cardinality(len(files)))
    decoded = shuffled.map(_read_augmented, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return decoded.batch(batch_size).prefetch(2)


def _plain(files: list[str], batch_size: int) -> tf.data.Dataset:
    records = tf.data.Dataset.from_tensor_slices((files, [_label(path) for path in files]))
    decoded = records.map(lambda path, label: (_read(path), label), num_parallel_calls=tf.data.AUTOTUNE)
    return decoded.batch(batch_size).prefetch(2)


def _read(path: tf.Tensor) -> tf.Tensor:
    image = tf.io.decode_png(tf.io.read_file(path), channels=1)
    return tf.image.resize(tf.cast(image, tf.float32) / 255.0, (SIZE, SIZE))


def _read_augmented(key: tf.Tensor, path: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    padded = tf.image.resize_with_crop_or_pad(_read(path), SIZE + 2, SIZE + 2)
    shifted = tf.image.stateless_random_crop(padded, (SIZE, SIZE, 1), key)
    return tf.image.stateless_random_brightness(shifted, 0.1, key), label


def _label(path: str) -> int:
    return int(Path(path).parent.name)


def _number(path: str) -> int:
    return int(Path(path).stem)


def image_folder() -> Path:
    """The folder of images, written first if it is not there; never left half written under this name."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "mlflow_resilience" / "digits"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".digits-", dir=folder.parent))
        try:
            _write_images(unfinished)
            _move_into_place(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _move_into_place(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was first, with the same images
            raise


def _write_images(folder: Path) -> None:
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    for label in range(CLASSES):
        (folder / str(label)).mkdir()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        grey = (pixels * (255 / 16)).round().astype("uint8")
        Image.fromarray(grey).save(folder / str(label) / f"{number:04d}.png")
