"""The random state of a process: Python's, NumPy's, TensorFlow's eager one and Keras's global seed generator."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
from tensorflow.python.eager import context as tf_context

PARTS = ("python", "numpy", "tensorflow", "keras")


def capture() -> dict[str, Any]:
    """The state as plain JSON values; draws nothing."""
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(words), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
        "tensorflow": _capture_tensorflow(),
        "keras": _capture_keras(),
    }


def restore(state: dict[str, Any], *, only: tuple[str, ...] = PARTS) -> None:
    """Put the process back into a captured state, or the parts of it named by ``only``."""
    if "python" in only:
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
    if "numpy" in only:
        kind, keys, position, has_gauss, cached = state["numpy"]
        np.random.set_state((kind, np.asarray(keys, dtype=np.uint32), position, has_gauss, cached))
    if "tensorflow" in only and state["tensorflow"] is not None:
        _restore_tensorflow(state["tensorflow"])
    if "keras" in only and state["keras"] is not None:
        _restore_keras(state["keras"])


@contextlib.contextmanager
def untouched(but: tuple[str, ...] = ()) -> Iterator[None]:
    """Whatever is drawn inside leaves no trace in the state outside, ``but`` in these parts of it."""
    before = capture()
    try:
        yield
    finally:
        restore(before, only=tuple(part for part in PARTS if part not in but))


def _capture_tensorflow() -> dict[str, Any] | None:
    # Every op without a seed of its own draws one from this generator when it is made, a shuffle included: its
    # state decides the order of data that is made after it.
    context = tf_context.context()
    generator = getattr(context, "_rng", None)
    if generator is None:
        return None
    version, words, gauss = generator.getstate()
    return {"seed": context._seed, "generator": [version, list(words), gauss]}


def _restore_tensorflow(state: dict[str, Any]) -> None:
    context = tf_context.context()
    if context._seed != state["seed"]:
        context._set_global_seed(state["seed"])
    version, words, gauss = state["generator"]
    generator = random.Random()
    generator.setstate((version, tuple(words), gauss))
    context._rng = generator


def _capture_keras() -> list[int] | None:
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    return None if generator is None else [int(word) for word in np.asarray(generator.state.value)]


def _restore_keras(words: list[int]) -> None:
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    if generator is not None:
        generator.state.assign(np.asarray(words, dtype=generator.state.dtype))
