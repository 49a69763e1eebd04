"""Pictures changed at random by stateless ops: what is drawn depends on the key alone, however many threads work.

The words are those of the parameter ``augment``, which puts the same into the model; here it is done beside training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mlflow_resilience.remedies.augmenting import Augment

#: A picture (height, width, channels), float32 in 0..1, and a key of two whole numbers.
Change = Callable[[Any, Any], Any]


def change(wanted: str | Change) -> Change | None:
    """What is to be done to each picture: words, a function of one's own, or ``none``. Raises UsageError."""
    if callable(wanted):
        return wanted
    asked = Augment.parse(wanted)
    if asked is None:
        return None
    steps = [(_STEPS[name], value) for name, value in asked.steps]

    def changed(picture: Any, key: Any) -> Any:
        for number, (step, value) in enumerate(steps):
            picture = step(picture, tf.random.fold_in(key, number), value)
        return tf.clip_by_value(picture, 0.0, 1.0)

    return changed


def _flip(picture: Any, key: Any, way: str) -> Any:
    if way in ("horizontal", "both"):
        picture = tf.image.stateless_random_flip_left_right(picture, key)
    if way in ("vertical", "both"):
        picture = tf.image.stateless_random_flip_up_down(picture, tf.random.fold_in(key, 1))
    return picture


def _rotate(picture: Any, key: Any, share: float) -> Any:
    (angle,) = _drawn(key, 1, share * 2.0 * math.pi)
    return _moved(picture, angle=angle)


def _zoom(picture: Any, key: Any, share: float) -> Any:
    (by,) = _drawn(key, 1, share)
    return _moved(picture, scale=1.0 + by)


def _shift(picture: Any, key: Any, share: float) -> Any:
    down, right = _drawn(key, 2, share)
    height, width = picture.shape[:2]
    return _moved(picture, down=down * height, right=right * width)


def _noise(picture: Any, key: Any, deviation: float) -> Any:
    return picture + tf.random.stateless_normal(tf.shape(picture), key, stddev=deviation)


def _drawn(key: Any, count: int, most: float) -> list[Any]:
    drawn: list[Any] = tf.unstack(tf.random.stateless_uniform((count,), key, -most, most))
    return drawn


def _moved(picture: Any, *, angle: Any = 0.0, scale: Any = 1.0, down: Any = 0.0, right: Any = 0.0) -> Any:
    """Turned and scaled about its middle, then moved; what comes into view is the picture mirrored."""
    height, width = picture.shape[:2]
    middle_y, middle_x = (height - 1) / 2.0, (width - 1) / 2.0
    along, across = tf.cos(angle) * scale, tf.sin(angle) * scale
    matrix = [
        *(along, -across, middle_x - along * middle_x + across * middle_y + right),
        *(across, along, middle_y - across * middle_x - along * middle_y + down),
        *(0.0, 0.0),
    ]
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=picture[None],
        transforms=tf.stack([tf.cast(each, tf.float32) for each in matrix])[None],
        output_shape=[height, width],
        interpolation="BILINEAR",
        fill_mode="REFLECT",
        fill_value=0.0,
    )
    return tf.ensure_shape(moved[0], picture.shape)


_STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "flip": _flip,
    "rotate": _rotate,
    "zoom": _zoom,
    "shift": _shift,
    "noise": _noise,
}
