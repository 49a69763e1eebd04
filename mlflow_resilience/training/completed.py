"""The state in which a fit has ended: a script that is started again passes it by, as if it had trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.core.fault import Position
from mlflow_resilience.errors import CheckpointError
from mlflow_resilience.training import build, checkpoint, pipeline, randomness, state
from mlflow_resilience.training.batches import Feed
from mlflow_resilience.training.callback_state import CallbackStates
from mlflow_resilience.training.data_position import DataPosition
from mlflow_resilience.training.packing import pack, unpack
from mlflow_resilience.training.plan import Plan
from mlflow_resilience.training.state import TrainingState

FOLDER = "completed"


def keep(folder: Path, plan: Plan, ended: TrainingState) -> None:
    """Write the state in which the fit of ``plan`` has ended, beside its checkpoints. Raises OSError."""
    arrays: dict[str, Any] = {}
    values = [variable.numpy() for variable in pipeline.variables(plan.training["x"])]
    meta = {
        **ended.meta,
        "epochs": plan.epochs,
        "pipeline": pack(values, arrays, "pipeline"),
        "parameters": {name: value for name, value in plan.history.params.items() if isinstance(value, int | None)},
    }
    checkpoint.write(folder / FOLDER, TrainingState(tensors={**ended.tensors, **arrays}, meta=meta))


def paths(folder: Path) -> list[Path]:
    """Where such a state is, below a fit's checkpoints."""
    return checkpoint.complete(folder / FOLDER)


def find(folder: Path, plan: Plan) -> TrainingState | None:
    """The state in which the fit has ended; None when it has not, or has more epochs to do by now."""
    for path in reversed(paths(folder)):
        try:
            found = checkpoint.read(path)
        except (CheckpointError, OSError):
            continue  # it is trained to its end again, from its last checkpoint
        if found.meta["epochs"] == plan.epochs:
            return found
    return None


def pass_by(plan: Plan, ended: TrainingState) -> Position:
    """Leave model, data, callbacks and random state as the fit has left them. Raises CheckpointError, with nothing
    changed, when the state is of another model."""
    model, meta, tensors = plan.model, ended.meta, ended.tensors
    _make_whole(plan)
    state.restore(model, tensors)
    CallbackStates(plan.all_callbacks).restore(meta["callbacks"], tensors)
    model.stop_training = meta["stop_training"]
    plan.history.set_model(model)
    plan.history.set_params(meta["parameters"])
    model.history = plan.history
    _pass_data(plan.training, meta["data"]["training"], tensors)
    if plan.validation is not None and meta["data"]["validation"] is not None:
        _pass_data(plan.validation, meta["data"]["validation"], tensors)
    for variable, value in zip(pipeline.variables(plan.training["x"]), unpack(meta["pipeline"], tensors), strict=False):
        variable.assign(value)
    randomness.restore(meta["random"])
    return Position(**meta["position"])


def _make_whole(plan: Plan) -> None:
    if not build.build(plan.model, build.element_spec(plan.training)):
        feed = Feed(plan.training, training=True)  # some data tells what it is made of only when it is opened
        feed.get_tf_dataset()
        build.build(plan.model, feed.element_spec)


def _pass_data(arguments: dict[str, Any], packed: Any, tensors: dict[str, Any]) -> None:
    """A pipeline that is used again goes on with the shuffle's next seed; a dataset of Python's, with its state."""
    data, position = arguments["x"], DataPosition(**unpack(packed, tensors))
    if isinstance(data, tf.data.Dataset):
        for _ in range(position.iterators):
            iter(data)
    elif isinstance(data, keras.utils.PyDataset):
        for name, value in position.attributes.items():
            setattr(data, name, value)
