"""A folder of pictures as training and validation data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from mlflow_resilience.errors import UsageError
from mlflow_resilience.pipelines import decoded, ordering
from mlflow_resilience.pipelines.augmenting import Change, change
from mlflow_resilience.pipelines.built import Built
from mlflow_resilience.pipelines.listing import Listing, listing
from mlflow_resilience.pipelines.splitting import split
from mlflow_resilience.spool.folder import home


def images(
    folder: str | Path,
    *,
    size: tuple[int, int],
    channels: int = 3,
    batch_size: int = 32,
    seed: int = 0,
    validation: float = 0.2,
    augment: str | Change = "none",
    cache: bool | str | Path = False,
    parallel: int = tf.data.AUTOTUNE,
    prefetch: int = 2,
) -> Built:
    """Pictures (JPEG, PNG, BMP, first frames of GIF) of ``folder``, which has a folder for each class.

    Batches are ``(pictures, labels)``: float32 in 0..1 of shape (batch, height, width, channels), and int32 numbers of
    the classes in the order of their names. Training data come in a new order each epoch and are augmented anew, by the
    words of the parameter ``augment`` or by a function of a picture and a key for stateless random ops; validation data
    (``validation``: the share that is held out of each class) come as they are. All of it follows from ``seed``, so
    that a training repeats itself, and resumes exactly, bit for bit.

    ``cache``: decode and resize each picture once, before training, into files in this folder (True: one in the home
    folder); augmentation comes after it. ``parallel`` pictures are read at once. A picture that cannot be decoded does
    not fail here: recovery leaves it out when it is met, and names its file.

    Raises UsageError for a folder that is none, and for settings that cannot be.
    """
    if channels not in (1, 3):
        raise UsageError(f"channels={channels}: 1 or 3 is needed")
    if min(*size, batch_size) < 1:
        raise UsageError(f"size={size}, batch_size={batch_size}: whole numbers, 1 or more, are needed")
    found, changed = listing(folder), change(augment)
    if channels == 1 and (coloured := [path for path in found.files if path.suffix.lower() in (".gif", ".bmp")]):
        raise UsageError(f"{coloured[0]}: GIF and BMP cannot be read as grey pictures: use channels=3, or convert them")
    shape = (*size, channels)
    paths, raw = [str(path) for path in found.files], _raw(found, shape, cache)
    training, held_out = split(found.labels, validation, seed)

    def columns(chosen: Any) -> tuple[Any, ...]:
        return [paths[i] for i in chosen], [raw[i] for i in chosen], [found.labels[i] for i in chosen]

    def read(path: Any, kept: Any) -> Any:
        pixels = _pixels(path, kept, shape) if cache else _decode(path, shape)
        return tf.cast(pixels, tf.float32) / 255.0

    def augmented(key: Any, path: Any, kept: Any, label: Any) -> Any:
        picture = read(path, kept)
        return (picture if changed is None else tf.ensure_shape(changed(picture, key), shape)), label

    def plain(path: Any, kept: Any, label: Any) -> Any:
        return read(path, kept), label

    def batched(records: tf.data.Dataset, make: Any) -> tf.data.Dataset:
        made = records.map(make, num_parallel_calls=parallel, deterministic=True)
        return made.batch(batch_size).prefetch(prefetch)

    return Built(
        train=batched(ordering.shuffled(columns(training), seed), augmented),
        validation=batched(ordering.in_order(columns(held_out)), plain) if len(held_out) else None,
        classes=found.classes,
        training_records=len(training),
        validation_records=len(held_out),
        fingerprint=f"{found.fingerprint}-{'x'.join(map(str, shape))}-{validation}",
    )


def _raw(found: Listing, shape: tuple[int, int, int], cache: bool | str | Path) -> list[str]:
    if not cache:
        return [""] * len(found.files)
    folder = home() / "pictures" if cache is True else Path(cache)
    return decoded.kept(found.files, lambda path: _decode(path, shape), shape, folder)


def _decode(path: Any, shape: tuple[int, int, int]) -> Any:
    """As whole numbers, so that a picture read from the cache is the same one bit for bit."""
    picture = tf.io.decode_image(tf.io.read_file(path), channels=shape[2], expand_animations=False)
    picture = tf.ensure_shape(picture, (None, None, shape[2]))
    resized = tf.image.resize(picture, shape[:2], antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(resized), 0.0, 255.0), tf.uint8)


def _pixels(path: Any, kept: Any, shape: tuple[int, int, int]) -> Any:
    def from_cache() -> Any:
        return tf.reshape(tf.io.decode_raw(tf.io.read_file(kept), tf.uint8), shape)

    return tf.cond(tf.equal(kept, ""), lambda: tf.ensure_shape(_decode(path, shape), shape), from_cache)
