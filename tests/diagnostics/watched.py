"""What runs in the children: trainings with diagnostics and without, in plain `fit` and in ours."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.diagnostics import restarting
from mlflow_resilience.diagnostics.callback import Diagnostics
from mlflow_resilience.training import state
from tests.diagnostics import trainings
from tests.training.children import ROOT
from tests.training.fits import entries, fit_in, interrupted, outcome, without_running_ahead


def _layers(kind: str) -> list[Any]:
    head = [keras.layers.Dense(32, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(10)]
    if kind == "dense":
        return head
    if kind == "recurrent":
        return [keras.layers.Reshape((8, 8)), keras.layers.LSTM(12), *head]
    image = [keras.layers.Reshape((8, 8, 1)), keras.layers.Conv2D(6, 3, use_bias=False)]
    return [*image, keras.layers.BatchNormalization(), keras.layers.ReLU(), keras.layers.Flatten(), *head]


def model(kind: str = "convolution", optimizer: str = "adam", **compiled: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    optimizers: dict[str, Callable[[], Any]] = {
        "adam": lambda: keras.optimizers.Adam(2e-3),
        "sgd": lambda: keras.optimizers.SGD(0.05),
        "clipped": lambda: keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=0.5),
        "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(2e-3)),
        "decayed": lambda: keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(5e-3, 60), weight_decay=0.01),
    }
    made = keras.Sequential([keras.Input((64,)), *_layers(kind)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(optimizers[optimizer](), loss, metrics=["accuracy"], **compiled)
    return made


def call(**more: Any) -> dict[str, Any]:
    x, y = trainings.DIGITS
    return {"x": x[:480], "y": y[:480], "validation_data": (x[480:640], y[480:640]), "epochs": 2, "verbose": 0, **more}


#: Name: the kind of model, its optimiser, and how it is compiled.
WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain": ("convolution", "adam", {}),
    "several": ("dense", "sgd", {"steps_per_execution": 4}),
    "jit": ("dense", "adam", {"jit_compile": True}),
    "jit_several": ("dense", "clipped", {"jit_compile": True, "steps_per_execution": 5}),
    "jit_convolution": ("convolution", "sgd", {"jit_compile": True}),
    "jit_recurrent": ("recurrent", "adam", {"jit_compile": True}),
    "eager": ("dense", "decayed", {"run_eagerly": True}),
    "scaled": ("dense", "scaled", {}),
    "recurrent": ("recurrent", "clipped", {}),
    "decayed": ("convolution", "decayed", {}),
}


def bits(folder: Path, ways: list[str], intervals: list[int], epochs: int) -> dict[str, Any]:
    """Whether a training is the same without diagnostics, and with a reading every so many steps."""
    told = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for way in ways:
            kind, optimizer, compiled = WAYS[way]
            ends = []
            readings = []
            for every in (None, *intervals):
                made, diagnostics = model(kind, optimizer, **compiled), Diagnostics(every or 1, log=False)
                history = made.fit(**call(epochs=epochs, callbacks=[diagnostics] if every else []))
                ends.append(outcome(made, history))
                readings.append(len(diagnostics.trace.steps))
            told[way] = {"same": all(end == ends[0] for end in ends), "readings": readings[1:]}
    return told


def norms(folder: Path) -> dict[str, Any]:
    """The global norm that a reading tells, against that of a gradient computed by hand; and what was left behind."""
    made, diagnostics = model("dense"), Diagnostics(1, log=False)
    x, y = trainings.DIGITS[0][:32], trainings.DIGITS[1][:32]
    made.layers[1].rate = 0.0
    made.fit(x, y, batch_size=32, epochs=1, verbose=0)
    before = [np.array(each) for each in made.trainable_variables]
    with tf.GradientTape() as tape:
        loss = made.compute_loss(x=x, y=y, y_pred=made(x, training=False))
    by_hand = float(tf.linalg.global_norm(tape.gradient(loss, [each.value for each in made.trainable_variables])))
    made.fit(x, y, batch_size=32, epochs=1, verbose=0, callbacks=[diagnostics])
    changed = [np.linalg.norm(np.array(new) - old) / np.linalg.norm(old) for new, old in zip(
        made.trainable_variables, before, strict=True)]  # fmt: skip
    trace = diagnostics.trace
    return {
        "by_hand": by_hand,
        "told": float(trace.global_norms[0]),
        "layers": [layer.name for layer in trace.layers],
        "ratios": [float(each) for each in trace.of("update_ratio")[0]],
        "changed": [float(each) for each in changed[::2]],
        "std": [float(each) for each in trace.of("weight_std")[0]],
        "std_by_hand": [float(np.std(np.array(each))) for each in made.trainable_variables[::2]],
        "loss": [float(trace.losses[0]), float(loss)],
        "left": [name for name in vars(made.optimizer) if name.startswith("_backend_apply")],
    }


def resumed(folder: Path) -> dict[str, Any]:
    """A training in one go, and one that was interrupted in mid-epoch: their ends, and what was recorded of them."""
    watching: list[Diagnostics] = []

    def make() -> tuple[keras.Model, dict[str, Any]]:
        watching.append(Diagnostics(2))
        return model(), call(callbacks=[watching[-1]])

    made, plain = make()
    whole = outcome(made, made.fit(**plain))
    whole_state = _values(watching[-1].get_state())
    with without_running_ahead():
        ended, begun = interrupted(folder, make, 21)
    told = entries(folder)
    points = [point for entry in told if entry["kind"] == "points" for point in entry["points"]]
    files = [Path(entry["path"]) for entry in told if entry["kind"] == "artifact"]
    return {
        "same": whole == ended,
        "same_record": whole_state == _values(watching[-1].get_state()),
        "began": begun,
        "steps": sorted({step for key, step, *_ in points if key == "diagnostics/gradient_norm"}),
        "keys": sorted({key for key, *_ in points if key.startswith("diagnostics/")}),
        "files": [path.name for path in files],
        "table": json.loads(files[0].read_text()),
        "png": files[1].read_bytes()[:4].hex(),
        "tags": {key: value for entry in told if entry["kind"] == "tags" for key, value in entry["tags"].items()},
    }


def recovered(folder: Path) -> dict[str, Any]:
    """A job whose step fails once, and whose training vanishes: the journal has an event, and the record is whole."""
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(16, activation="sigmoid") for _ in range(9)]
    made = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(10, activation="softmax")])
    made.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    failing, diagnostics = _FailsOnce(12), Diagnostics(1)
    fit_in(folder, made, call(callbacks=[diagnostics, failing]))
    events = [entry for entry in entries(folder) if entry.get("name") == "diagnostics"]
    return {
        "steps": [int(step) for step in diagnostics.trace.steps],
        "attempts": sum(entry["kind"] == "attempt" for entry in entries(folder)),
        "events": [[entry["step"], entry["text"], entry["data"]["symptom"]] for entry in events],
        "failure": diagnostics.failure,
    }


class _FailsOnce(keras.callbacks.Callback):
    """Raises what a lost connection raises, once after so many batches."""

    _left = 1

    def __init__(self, batch: int) -> None:
        super().__init__()
        self._batch = batch

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self._batch and self._left:
            self._left = 0
            raise ConnectionResetError("connection reset by peer")


def logged(folder: Path) -> dict[str, Any]:
    """Plain `fit` with an MLflow run that is open: what the run has at the end."""
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.create_experiment("diagnostics", artifact_location=str(folder / "artifacts"))
    mlflow.set_experiment("diagnostics")
    with mlflow.start_run() as run:
        model("dense").fit(**call(callbacks=[Diagnostics(5)]))
    client = mlflow.MlflowClient()
    points = client.get_metric_history(run.info.run_id, "diagnostics/gradient_norm")
    data = client.get_run(run.info.run_id).data
    return {
        "steps": [point.step for point in points],
        "metrics": sorted(key for key in data.metrics if key.startswith("diagnostics/")),
        "tags": {key: value for key, value in data.tags.items() if key.startswith("resilience.")},
        "files": [each.path for each in client.list_artifacts(run.info.run_id, "resilience/diagnostics")],
    }


def broken(folder: Path) -> dict[str, Any]:
    """Diagnostics that fail in the middle of a training: it ends as it would without."""
    ends = []
    said: list[str] = []
    for breaking in (False, True):
        made, diagnostics = model("dense"), Diagnostics(2, log=False)
        if breaking:
            diagnostics._rate = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ends.append(outcome(made, made.fit(**call(callbacks=[diagnostics] * breaking))))
        said += [str(each.message) for each in caught if "diagnostics" in str(each.message)]
    return {"same": ends[0] == ends[1], "said": said}


def tried(folder: Path) -> dict[str, Any]:
    """What a warm restart changes, of a model stuck at too low a rate and of one that has a good one."""
    told = {}
    x, y = trainings.DIGITS
    decaying = keras.optimizers.schedules.CosineDecay(1e-3, 100)
    for name, rate in {"low": 1e-3, "good": 0.3, "schedule": decaying}.items():
        optimizer = keras.optimizers.SGD(rate)
        made = model("dense")
        made.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        made.fit(x[:320], y[:320], epochs=2, verbose=0)
        before = {key: np.asarray(value).tobytes() for key, value in state.snapshot(made).items()}
        random = np.random.get_state()[1].tobytes()  # type: ignore[index, union-attr]
        trial = restarting.try_rates(made, tf.data.Dataset.from_tensor_slices((x[:320], y[:320])).batch(32), steps=40)
        after = {key: np.asarray(value).tobytes() for key, value in state.snapshot(made).items()}
        told[name] = {
            "as_it_was": before == after and random == np.random.get_state()[1].tobytes(),  # type: ignore[index, union-attr]
            "losses": trial.losses,
            "before": trial.before,
            "text": trial.text,
        }
    return told


def guide(folder: Path) -> dict[str, Any]:
    """The guide's snippets, one after the other, with a model and data as a reader has them."""
    x, y = trainings.DIGITS
    names: dict[str, Any] = {
        "model": model("dense"),
        **{"x": x[:320], "y": y[:320], "x_val": x[320:480], "y_val": y[320:480]},
        "dataset": tf.data.Dataset.from_tensor_slices((x[:320], y[:320])).batch(32),
    }
    page = (ROOT / "docs" / "guides" / "diagnostics.md").read_text()
    snippets = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for snippet in snippets:
        exec(compile(snippet, "diagnostics.md", "exec"), names)
    symptoms = re.findall(r"^\| `(\w+)`(?: \(note\))? \|", page.partition("## The verdicts")[2], re.MULTILINE)
    return {"snippets": len(snippets), "verdicts": len(names["diagnostics"].verdicts), "symptoms": symptoms}


def symptoms(folder: Path, names: list[str], seeds: list[int]) -> dict[str, dict[str, list[str]]]:
    """What was found in each training, for each seed."""
    makers = {name: maker for name, (maker, _) in trainings.SICK.items()} | trainings.HEALTHY
    return {
        name: {str(seed): [str(verdict) for verdict in makers[name](seed).verdicts] for seed in seeds} for name in names
    }


def _values(kept: dict[str, Any]) -> str:
    """All but the names of layers, which Keras counts through in a process."""
    kept = {name: value for name, value in kept.items() if name != "layers"}
    return json.dumps(kept, default=lambda value: value.tobytes().hex())
