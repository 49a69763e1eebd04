"""Settings put in force in this process, and on a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework.config import is_op_determinism_enabled

from mlflow_resilience.device.settings import DeviceSettings, Told

_LATE = "too late, since TensorFlow has begun: set it before anything is computed"
_NARROW = ("float16", "bfloat16")


def apply(settings: DeviceSettings) -> list[Told]:
    """Everything but what belongs to a model, each with its line. Raises nothing for what cannot be done."""
    return list(_applied(settings))


def suit(model: keras.Model, settings: DeviceSettings) -> list[Told]:
    """What belongs to a compiled model: XLA; and a look at how it bears the precision."""
    return [*(_compiled(model) if settings.xla else ()), *(_precise(model, settings) if settings.precision else ())]


def _applied(settings: DeviceSettings) -> Iterator[Told]:
    if settings.threads is not None:
        yield _threads(*settings.threads)
    if settings.memory_growth:
        yield _on_gpus("memory_growth", "GPU memory is taken as it is needed", _grow)
    if settings.memory_limit is not None:
        megabytes = settings.memory_limit // 10**6
        yield _on_gpus("memory_limit", f"GPU memory limited to {megabytes} MB each", lambda gpu: _limit(gpu, megabytes))
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
        yield Told("deterministic", True, "ops are deterministic")
    if settings.precision is not None:
        yield _precision(settings.precision)


def _threads(within: int, between: int) -> Told:
    threading = tf.config.threading
    try:
        threading.set_intra_op_parallelism_threads(within)
        threading.set_inter_op_parallelism_threads(between)
    except RuntimeError:
        had = f"{threading.get_intra_op_parallelism_threads()} and {threading.get_inter_op_parallelism_threads()}"
        return Told("threads", False, f"threads: {_LATE} (there are {had}; 0 is for as many as there are cores)")
    return Told("threads", True, f"{within} threads within an op, {between} between ops")


def _on_gpus(name: str, text: str, change: Callable[[Any], None]) -> Told:
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return Told(name, False, f"{name}: there is no GPU here, and of a CPU's memory TensorFlow takes what it needs")
    try:
        for gpu in gpus:
            change(gpu)
    except RuntimeError:
        return Told(name, False, f"{name}: {_LATE}")
    except ValueError as error:
        return Told(name, False, f"{name}: TensorFlow refuses it: {str(error).splitlines()[0]}")
    return Told(name, True, f"{text} ({len(gpus)} GPU{'s' if len(gpus) > 1 else ''})")


def _grow(gpu: Any) -> None:
    tf.config.experimental.set_memory_growth(gpu, True)


def _limit(gpu: Any, megabytes: int) -> None:
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=megabytes)])


def _precision(policy: str) -> Told:
    keras.config.set_dtype_policy(policy)
    kind = policy.removeprefix("mixed_")
    more = ", with the loss scaled" if kind == "float16" else ""
    return Told("precision", True, f"layers compute in {kind} and keep float32 weights{more}")


def _compiled(model: keras.Model) -> Iterator[Told]:
    unfit = [layer.name for layer in model._flatten_layers() if not layer.supports_jit]
    if model.run_eagerly:
        yield Told("xla", False, "xla: the model runs eagerly (run_eagerly=True), which XLA cannot compile")
    elif unfit:
        yield Told("xla", False, f"xla: XLA cannot compile {', '.join(unfit[:3])}: the model runs without")
    elif is_op_determinism_enabled():
        yield Told("xla", False, "xla: Keras compiles nothing while ops are deterministic: the model runs without")
    else:
        model.jit_compile = True
        yield Told("xla", True, "the training step is compiled by XLA")


def _precise(model: keras.Model, settings: DeviceSettings) -> Iterator[Told]:
    kinds = {layer.dtype_policy.name for layer in model._flatten_layers() if layer.weights}
    if kinds and settings.precision not in kinds:
        text = f"precision: no layer of the model uses {settings.precision}: they have a precision of their own"
        yield Told("precision", False, text)
        return
    if not tf.config.list_physical_devices("GPU"):
        yield Told(
            "precision", False, f"precision: there is no GPU here; on a CPU {settings.precision} is rarely faster"
        )
    narrow = [
        each.name
        for each in getattr(model, "outputs", None) or []
        if keras.backend.standardize_dtype(each.dtype) in _NARROW
    ]
    if narrow:
        text = (
            "precision: the model's output is computed in half precision, in which a loss loses digits: give its last "
            'layer dtype="float32"'
        )
        yield Told("precision", False, text)
    if settings.precision == "mixed_float16" and not hasattr(model.optimizer, "inner_optimizer"):
        text = "precision: the optimiser does not scale the loss (compile was told so): small gradients become zero"
        yield Told("precision", False, text)
