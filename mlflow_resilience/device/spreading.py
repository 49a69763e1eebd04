"""One process on several devices: which ones, and how their gradients come together."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import tensorflow as tf

from mlflow_resilience.device.settings import Told
from mlflow_resilience.errors import UsageError


def strategy(devices: str) -> tuple[tf.distribute.Strategy | None, list[Told]]:
    """What a model is made under, to be trained on so many devices: ``auto`` for all GPUs, or their number; None for
    one. To be asked for before TensorFlow computes anything.

    Where there is no GPU, a number of them share the processor: nothing is faster by that, and all else is as it would
    be. Raises UsageError where there are GPUs, but too few.
    """
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    wanted = max(1, len(gpus)) if devices == "auto" else int(devices)
    if wanted == 1:
        return None, []
    if gpus:
        return _on_gpus(gpus, wanted)
    return _on_processor(wanted)


def _on_gpus(gpus: list[Any], wanted: int) -> tuple[tf.distribute.Strategy, list[Told]]:
    if wanted > len(gpus):
        raise UsageError(f"devices={wanted}: there are {len(gpus)} GPUs here; devices=auto takes them all")
    names = [gpu.name for gpu in gpus[:wanted]]
    return tf.distribute.MirroredStrategy(names), [Told("devices", True, f"trained on {wanted} GPUs")]


def _on_processor(wanted: int) -> tuple[tf.distribute.Strategy, list[Told]]:
    (processor, *_) = tf.config.list_physical_devices("CPU")
    with contextlib.suppress(RuntimeError):  # TensorFlow has begun: then it has as many as it has
        _give_threads(wanted)
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * wanted)
    names = [device.name for device in tf.config.list_logical_devices("CPU")[:wanted]]
    if len(names) < wanted:
        raise UsageError(f"devices={wanted}: too late, since TensorFlow has begun with {len(names)}")
    # Collectives between devices of one processor wait for one another's threads, and may stand still for long.
    spread = tf.distribute.MirroredStrategy(names, cross_device_ops=tf.distribute.ReductionToOneDevice())
    return spread, [Told("devices", True, f"trained on {wanted} devices that share the processor: there is no GPU")]


def _give_threads(wanted: int) -> None:
    """Each device waits in a thread of its own for its part of a batch; one more has to make the batch."""
    threading = tf.config.threading
    if not threading.get_inter_op_parallelism_threads() and (os.cpu_count() or 1) < 2 * wanted:
        threading.set_inter_op_parallelism_threads(2 * wanted)
