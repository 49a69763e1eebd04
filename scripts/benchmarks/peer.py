"""One training in one of the ways that people keep it alive; started by `peers.py`, killed, and started again.

    python peer.py WAY

Its steps go to `steps.jsonl`, its end to `end.json`, both in the working directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import keras
import numpy as np
import tensorflow as tf

EPOCHS, STEPS, BATCH, WIDTH = 3, 60, 448, 480
EVERY = 10  # steps between two saves, where a way has them


class Steps(keras.callbacks.Callback):
    """Writes down when each step was done, by its number over the whole training as the training itself counts."""

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass

    def on_train_begin(self, logs: Any = None) -> None:
        Path("pid").write_text(str(os.getpid()))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._before = epoch * STEPS

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._done = int(self.model.optimizer.iterations.numpy())

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if int(self.model.optimizer.iterations.numpy()) == self._done:
            return  # a step that is only shown once more
        with Path("steps.jsonl").open("a") as file:
            file.write(json.dumps([self._before + batch + 1, time.time(), os.getpid()]) + "\n")


class AtEnd(keras.callbacks.Callback):
    """Writes down what came of it."""

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass

    def on_train_end(self, logs: Any = None) -> None:
        data = b"".join(np.asarray(variable.value).tobytes() for variable in self.model.trainable_variables)
        Path("end.json").write_text(json.dumps({"digest": hashlib.sha256(data).hexdigest()}))


def load_data(params: dict[str, Any]) -> tuple[tf.data.Dataset, None]:
    """Drawn once, shuffled anew in each epoch."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(BATCH * STEPS, WIDTH)).astype("float32")
    y = (x @ draw.normal(size=WIDTH) > 0).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=1, reshuffle_each_iteration=True)
    return data.batch(BATCH), None


def build_model(params: dict[str, Any]) -> keras.Model:
    """About 0.7 million weights, with dropout: the random state counts."""
    layers = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(3)]
    head = [keras.layers.Dropout(0.3), keras.layers.Dense(1, activation="sigmoid")]
    model = keras.Sequential([keras.Input((WIDTH,)), *layers, *head])
    model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy")
    return model


def callbacks(params: dict[str, Any]) -> list[keras.callbacks.Callback]:
    return [Steps(), AtEnd()]


def train(way: str) -> None:
    keras.utils.set_random_seed(0)
    data, _ = load_data({})
    model = build_model({})
    if way == "mlflow":
        _with_mlflow(model, data)
        return
    more = {
        "bare": [],
        "backup_epoch": [keras.callbacks.BackupAndRestore("backup")],
        "backup_steps": [keras.callbacks.BackupAndRestore("backup", save_freq=EVERY)],
    }[way]
    model.fit(data, epochs=EPOCHS, verbose=0, callbacks=[*more, *callbacks({})])


def _with_mlflow(model: keras.Model, data: tf.data.Dataset) -> None:
    """MLflow's callbacks, and its newest checkpoint where there is one; as its documentation has it."""
    import mlflow
    from mlflow.tensorflow import MlflowCallback, MlflowModelCheckpointCallback

    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    before, begun = Path("run"), 0
    if before.exists():
        run_id = before.read_text()
        names = [each.path for each in mlflow.MlflowClient().list_artifacts(run_id, "checkpoints")]
        done = [int(name.rpartition("epoch_")[2]) for name in names if "epoch_" in name]
        if done:
            model, begun = mlflow.tensorflow.load_checkpoint(run_id=run_id), max(done) + 1
    with mlflow.start_run() as run:
        if not begun:
            before.write_text(run.info.run_id)
        kept = MlflowModelCheckpointCallback(monitor="loss", mode="min", save_best_only=False, save_freq="epoch")
        more = [MlflowCallback(run), kept]
        model.fit(data, epochs=EPOCHS, initial_epoch=begun, verbose=0, callbacks=[*more, *callbacks({})])


if __name__ == "__main__":
    train(sys.argv[1])
