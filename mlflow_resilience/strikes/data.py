"""Batches that are poisoned or damaged, and data that has ended."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any

from mlflow_resilience.strikes.place import Place, Strike
from mlflow_resilience.strikes.recorded import simulated

_SLOW_SECONDS = 5.0
#: A picture of one grey pixel, without its second half.
_HALF_A_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=="
)[:40]


def _scaled(factor: float) -> Strike:
    def strike(batch: Any, place: Place) -> Any:
        import tensorflow as tf

        def poison(value: Any) -> Any:
            return value * tf.cast(factor, value.dtype) if value is not None and value.dtype.is_floating else value

        return _with_inputs(batch, lambda inputs: tf.nest.map_structure(poison, inputs, expand_composites=True))

    return strike


def _corrupt_record(batch: Any, place: Place) -> Any:
    """One record's class or token is damaged into a number that there is none of: what looks it up refuses it.

    Where the records hold no such number, the fault is that of decoding a damaged picture, which none of them is.
    """
    import tensorflow as tf

    flat = tf.nest.flatten(batch, expand_composites=True)
    at = next((i for i in range(len(flat) - 1, -1, -1) if _is_lookup(flat[i])), None)
    if at is None:
        return _damaged_picture()
    value = flat[at]
    record = [int(value.shape[0]) // 2] + [0] * (value.shape.rank - 1)
    flat[at] = tf.tensor_scatter_nd_update(value, [record], tf.constant([value.dtype.max], value.dtype))
    return tf.nest.pack_sequence_as(batch, flat, expand_composites=True)


def _is_lookup(value: Any) -> bool:
    """Whether these are numbers of classes, from which a loss looks up a column, or of tokens."""
    return value is not None and value.dtype.is_integer and value.shape.rank in (1, 2) and int(value.shape[0]) > 0


def _damaged_picture() -> Any:
    import tensorflow as tf

    try:
        return tf.io.decode_png(_HALF_A_PICTURE)
    except tf.errors.OpError as error:
        raise simulated(error) from None


def _ended(batch: Any, place: Place) -> Any:
    import tensorflow as tf

    return iter(tf.data.Dataset.range(0)).get_next()


def _slow(batch: Any, place: Place) -> Any:
    time.sleep(_SLOW_SECONDS)
    return batch


def _with_inputs(batch: Any, change: Callable[[Any], Any]) -> Any:
    inputs, *others = batch if isinstance(batch, tuple) else (batch,)
    return (change(inputs), *others) if isinstance(batch, tuple) else change(inputs)


STRIKES: dict[str, Strike] = {
    "nan": _scaled(float("nan")),
    "spike": _scaled(1e4),
    "corrupt_record": _corrupt_record,
    "input_exhausted": _ended,
    "slow_data": _slow,
}
