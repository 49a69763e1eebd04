"""What of a saved state can be seen from outside, while training runs at full speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.training import checkpoint, state
from tests.training.fits import entries, fit_in


def exported(folder: Path) -> dict[str, Any]:
    """Logged models written while a model of 0.2 M parameters trains: each compared with the digest of its state."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Input((64,)), keras.layers.Dense(1024, activation="relu"), keras.layers.Dropout(0.1)]
    model = keras.Sequential([*layers, keras.layers.Dense(128), keras.layers.BatchNormalization()])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x = np.random.default_rng(0).normal(size=(64, 64)).astype("float32")
    data = tf.data.Dataset.from_tensors((x, np.tile(x, 2))).repeat(150)
    fit_in(folder, model, {"x": data, "epochs": 2, "verbose": 0}, every="20steps", keep="1000", log_models=True)
    return {
        "models": [_compared(Path(entry["folder"]), entry) for entry in entries(folder) if entry["kind"] == "model"]
    }


def _compared(folder: Path, entry: dict[str, Any]) -> dict[str, Any]:
    model = keras.saving.load_model(folder / "model.keras")
    loaded = {name: np.asarray(value) for name, value in state.snapshot(model, ("model", "optimizer")).items()}
    told = {"name": entry["name"], "step": entry["step"], "iterations": int(model.optimizer.iterations.numpy())}
    if entry["name"] == "model":
        return told
    stored = checkpoint.read(folder / "training_state")
    whole = {name: value for name, value in stored.tensors.items() if name.startswith(("model/", "optimizer/"))}
    return {
        **told,
        "digest": checkpoint.digest_of(whole) == entry["digest"],
        # Keras's file has no seeds of its layers: they are in the training state alone.
        "tensors": [_matches(value, whole, name) for name, value in loaded.items() if "seed_generator" not in name],
    }


def _matches(value: np.ndarray, stored: dict[str, np.ndarray], name: str) -> bool:
    """Names carry Keras's numbering of layers; group and number are what is equal."""
    place = name.split("/")[:2]
    found = next(array for key, array in stored.items() if key.split("/")[:2] == place)
    return bool(np.array_equal(found, value))


def write_sample(folder: Path) -> None:
    """The stored checkpoint of a format: run once when a format is new."""
    arrays = {
        "model/0000/dense/kernel": np.arange(6, dtype="float32").reshape(2, 3) / 7,
        "model/0001/dense/bias": np.array([1, -2, 3], dtype="float16"),
        "optimizer/0000/adam/iteration": np.array(41, dtype="int64"),
        "optimizer/0001/adam/kernel": tf.constant([0.1, 2.5], tf.bfloat16).numpy(),
    }
    meta = {"position": {"epoch": 2, "step": 1, "global_step": 41}, "metrics": {"loss": 0.25}}
    checkpoint.write(folder, state.TrainingState(tensors=arrays, meta=meta))


def read_sample(folder: Path, sample: str) -> dict[str, Any]:
    read = checkpoint.read(Path(sample))
    return {
        "meta": read.meta,
        "values": {name: np.asarray(array, "float64").tolist() for name, array in read.tensors.items()},
        "types": {name: str(array.dtype) for name, array in read.tensors.items()},
        "digest": checkpoint.digest_of(read.tensors),
    }


def full_disk(folder: Path) -> dict[str, Any]:
    """Checkpoints on a disk that is nearly full, as `checkpoint._write` sees it: training goes on."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
    model.compile("adam", "mse", run_eagerly=True)
    write, written = checkpoint._write, [0]

    def limited(path: Path, parts: Any, tell: Any) -> int:
        written[0] += 1
        if 4 <= written[0] <= 8:
            path.write_bytes(parts[0])
            raise OSError(28, "No space left on device")
        return write(path, parts, tell)

    checkpoint._write = limited
    x = np.ones((40, 4), "float32")
    fit_in(folder, model, {"x": x, "y": x[:, :2], "batch_size": 8, "epochs": 3, "verbose": 0}, local="1steps")
    kept = sorted(path.name for path in folder.glob("jobs/*/checkpoints/*"))
    found = entries(folder)
    return {
        "kept": kept,
        "faults": [entry["failure_class"] for entry in found if entry["kind"] == "fault"],
        "resumptions": [entry["resumption"] for entry in found if entry["kind"] == "decision"],
        "attempts": len([entry for entry in found if entry["kind"] == "attempt"]),
        "saved": [entry["step"] for entry in found if entry["kind"] == "checkpoint"],
        "readable": [json.loads(path.read_text())["format"] for path in folder.glob("jobs/*/checkpoints/*/state.json")],
    }
