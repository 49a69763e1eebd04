"""Pictures decoded and resized once, and kept on disk as they are then: what a cache of pictures is.

tf.data's own cache keeps the order in which it was filled, forgets what a record is made of, and bars an iterator from
being stored. A file a picture has none of these, and the next process finds it too.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tensorflow as tf

from mlflow_resilience.errors import UsageError

Decode = Callable[[Any], Any]  # a path to a picture of uint8, (height, width, channels)


def kept(files: Sequence[Path], decode: Decode, shape: tuple[int, int, int], folder: Path) -> list[str]:
    """For each picture the file with its bytes, made where it is not there; "" for one that cannot be decoded, which is
    left to be met in training. Raises UsageError where the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
            return list(threads.map(lambda path: _kept(path, decode, shape, folder), files))
    except OSError as error:
        raise UsageError(f"cache={folder}: it cannot be written: {error.strerror}") from None


def _kept(path: Path, decode: Decode, shape: tuple[int, int, int], folder: Path) -> str:
    place = folder / _name(path, shape)
    if not place.exists():
        try:
            picture = decode(str(path))
        except tf.errors.OpError:
            return ""
        _write(place, picture.numpy().tobytes())
    return str(place)


def _name(path: Path, shape: tuple[int, int, int]) -> str:
    """Another one when the picture has changed."""
    facts = path.stat()
    told = f"{path.absolute()} {facts.st_size} {facts.st_mtime_ns}"
    return f"{hashlib.sha256(told.encode()).hexdigest()[:32]}-{'x'.join(map(str, shape))}.u8"


def _write(place: Path, data: bytes) -> None:
    """Whole or not at all, also when the process is killed meanwhile."""
    descriptor, unfinished = tempfile.mkstemp(prefix=".unfinished-", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(unfinished, place)
    except BaseException:
        os.unlink(unfinished)
        raise
