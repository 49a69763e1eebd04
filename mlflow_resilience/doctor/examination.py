"""A recipe examined: its data, its model, and this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience import recipe as recipes
from mlflow_resilience import telemetry
from mlflow_resilience.core.schedule import Retention
from mlflow_resilience.doctor import (
    arithmetic,
    data_checks,
    looking,
    model_checks,
    room,
    scanning,
    server,
    speed,
    tracing,
)
from mlflow_resilience.doctor.facts import Expected, Split
from mlflow_resilience.doctor.finding import Finding, worst_first
from mlflow_resilience.explain import explain
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.training import build, reproducible, state
from mlflow_resilience.training.callback_state import unstorable


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How far to look: so many batches of the training data, whether to read every record, and for how many seconds to
    measure each thing about its pace, if at all."""

    batches: int = 16
    scan: bool = False
    throughput: float | None = None
    tell: scanning.Told = lambda read, bad: None


def examine(parameters: Parameters, *, home: Path, tracking_uri: str, extent: Extent) -> list[Finding]:
    """What is found, worst first. Raises UsageError for a recipe that is none."""
    return worst_first([*server.reachable(tracking_uri), *_of_recipe(parameters, home, extent)])


def _of_recipe(parameters: Parameters, home: Path, extent: Extent) -> Iterator[Finding]:
    loaded = recipes.load(parameters.recipe)
    params = parameters.for_recipe()
    keras.utils.set_random_seed(parameters.seed)
    try:
        data = loaded.load_data(params)
        loaded.check_data(data)
        model = loaded.build_model(params)
        loaded.check_model(model)
        callbacks = loaded.callbacks(params) if loaded.callbacks is not None else []
    except (ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError, tf.errors.OpError) as error:
        yield _failed("make", "the recipe fails", error)
        return
    splits = []
    for each, name in zip(data, ("training", "validation"), strict=True):
        if each is not None:
            yield from _reproducible(each)
            yield from scanning.scan(each, name, extent.tell) if extent.scan else ()
            try:
                splits.append(looking.split_of(each, name, extent.batches, parameters.batch_size))
            except Exception as error:  # of the user's pipeline, whatever it is made of
                yield _failed("read", f"reading the {name} data fails", error)
                return
    yield from _of_model(model, data[0], splits[0], parameters, home)
    yield from _of_splits(splits, looking.expected_by(model), parameters.epochs)
    yield from _of_callbacks(callbacks)
    if extent.throughput is not None:
        yield from speed.measured(data[0], model, extent.throughput)


def _of_splits(splits: list[Split], expected: Expected, epochs: int) -> Iterator[Finding]:
    for split in splits:
        yield from data_checks.empty(split)
        yield from arithmetic.steps(split, epochs)
        yield from arithmetic.last_batch(split, expected)
        if split.looked_at:
            yield from data_checks.not_finite(split)
            yield from data_checks.constant_features(split)
            yield from data_checks.uneven_classes(split, expected)
            yield from model_checks.inputs_fit(split, expected)
            yield from model_checks.targets_fit(split, expected)
    if splits[0].looked_at:
        yield from data_checks.out_of_scale(splits[0], expected)
    yield from model_checks.loss_fits_activation(expected)
    yield from data_checks.shared_records(splits[0], splits[1] if len(splits) > 1 else None)


def _of_model(model: keras.Model, data: Any, training: Split, parameters: Parameters, home: Path) -> Iterator[Finding]:
    spec = _spec(data, training)
    if spec is None:
        return
    build.build(model, spec)
    try:
        graph = tracing.traced(model, _sized(spec, training))
    except Exception as error:  # of the user's model
        yield tracing.refused(error)
        return
    size = training.batch_size or parameters.batch_size
    free, device = _free()
    yield from room.memory(tracing.need(model, graph), free, device, size)
    home.mkdir(parents=True, exist_ok=True)
    kept = Retention.parse(str(parameters.keep)).last
    yield from room.disk(state.size(model), kept, shutil.disk_usage(home).free, str(home))


def _spec(data: Any, split: Split) -> Any:
    """The specs of a training batch; None where nothing was read to tell by."""
    if isinstance(data, tf.data.Dataset):
        return data.element_spec
    if not split.looked_at:
        return None
    batch = data[0] if isinstance(data, keras.utils.PyDataset) else data
    open_batch = lambda each: tf.TensorSpec((None, *each.shape[1:]), _as_keras_has_it(each.dtype))  # noqa: E731
    return keras.tree.map_structure(open_batch, tuple(batch))


def _sized(spec: Any, split: Split) -> Any:
    """The same specs with the sizes that were seen: an estimate of memory needs them."""
    flat, columns = tf.nest.flatten(spec), (*split.inputs, *split.targets, *split.weights)
    if len(flat) != len(columns) or not all(isinstance(each, tf.TensorSpec) for each in flat):
        return spec
    seen = [tf.TensorSpec((split.batch_size, *c.shape), each.dtype) for each, c in zip(flat, columns, strict=True)]
    return tf.nest.pack_sequence_as(spec, seen)


def _as_keras_has_it(dtype: Any) -> Any:
    return keras.config.floatx() if tf.as_dtype(dtype) == tf.float64 else dtype


def _free() -> tuple[float, str]:
    """Bytes that a training may take, and where."""
    memory = telemetry.snapshot()
    gpus = [gpu for gpu in memory.get("gpus") or () if "total_mb" in gpu]
    if tf.config.list_physical_devices("GPU") and gpus:
        return 1e6 * (gpus[0]["total_mb"] - gpus[0].get("used_mb", 0.0)), f"GPU {gpus[0]['index']}"
    free = memory["host_available_mb"]
    if "cgroup_limit_mb" in memory:
        free = min(free, memory["cgroup_limit_mb"] - memory.get("cgroup_used_mb", 0.0))
    return 1e6 * free, "this host"


def _reproducible(data: Any) -> Iterator[Finding]:
    for text in reproducible.findings(data):
        found, _, remedy = text.rpartition(": ")
        yield Finding(severity="warning", check="reproducible", text=found, remedy=remedy)


def _of_callbacks(callbacks: list[Any]) -> Iterator[Finding]:
    names = unstorable(callbacks)
    if names:
        yield Finding(
            severity="warning",
            check="callbacks",
            text=f"{', '.join(names)} cannot be stored with a checkpoint: a resumed training may differ",
            remedy="give the callback get_state() and set_state(state)",
        )


def _failed(check: str, what: str, error: Exception) -> Finding:
    told = explain(f"{type(error).__name__}: {error}")
    return Finding(severity="error", check=check, text=f"{what}: {told.root_cause}", remedy=told.hint)
