"""Recipes examined in a child, and what a step really takes."""

from __future__ import annotations

import functools
import textwrap
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.doctor import passing as passing_by
from mlflow_resilience.doctor import tracing
from mlflow_resilience.doctor.examination import Extent, examine
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.telemetry import measure_memory
from mlflow_resilience.training import build
from tests.training import pieces

HEAD = """
import keras, numpy as np, tensorflow as tf
def build_model(params):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    return model
def arrays(records=40, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(records, 4)).astype("float32"), np.arange(records) % 3
"""
RECIPES = {
    "healthy": "def load_data(params): return arrays(), arrays(10, 1)",
    "label beyond": "def load_data(params): x, y = arrays(); return (x, y + 1), None",
    "shape": "def load_data(params): x, y = arrays(); return (x[:, :3], y), None",
    "raises": "def load_data(params): return open('/no/such/file.csv')",
    "endless": "def load_data(params): return tf.data.Dataset.from_tensor_slices(arrays()).repeat().batch(8), None",
    "order left open": """
def load_data(params):
    data = tf.data.Dataset.from_tensor_slices(arrays())
    turned = data.map(lambda x, y: (x + tf.random.uniform((4,)), y), num_parallel_calls=4)
    return turned.batch(8), None
""",
    "py dataset": """
class Data(keras.utils.PyDataset):
    def __len__(self): return 5
    def __getitem__(self, at): x, y = arrays(); return x[8 * at : 8 * at + 8], y[8 * at : 8 * at + 8]
def load_data(params): return Data(), None
""",
    "broken files": """
def load_data(params):
    from pathlib import Path
    here = Path(__file__).parent
    for number in range(12):
        picture = tf.io.encode_png(np.full((2, 2, 1), number, "uint8")).numpy()
        (here / f"{number:02d}.png").write_bytes(picture[:20] if number in (3, 9) else picture)
    def read(path):
        picture = tf.io.decode_png(tf.io.read_file(path), channels=1)
        return tf.reshape(tf.cast(tf.ensure_shape(picture, (2, 2, 1)), tf.float32), (4,)), 1
    files = tf.data.Dataset.from_tensor_slices(sorted(str(path) for path in here.glob("*.png")))
    return files.map(read).batch(4), None
""",
    "callback": """
def load_data(params): return arrays(), None
class Talking(keras.callbacks.Callback):
    def __init__(self): super().__init__(); self.line = open("/dev/null")
def callbacks(params): return [Talking()]
""",
}


def recipes(folder: Path, names: list[str], scan: bool = False) -> dict[str, list[list[str]]]:
    """For each recipe what was found: severity, check, text."""
    return {name: _examined(folder, name, scan) for name in names}


def _examined(folder: Path, name: str, scan: bool) -> list[list[str]]:
    place = folder / name.replace(" ", "_")
    place.mkdir()
    path = place / f"{place.name}.py"
    path.write_text(HEAD + textwrap.dedent(RECIPES[name]))
    read: list[int] = []
    extent = Extent(scan=scan, tell=lambda count, bad: read.append(count))
    store = f"sqlite:///{folder}/mlflow.db"
    parameters = Parameters(recipe=str(path), batch_size=8)
    findings = examine(parameters, home=folder / "home", tracking_uri=store, extent=extent)
    return [[finding.severity, finding.check, finding.text] for finding in findings]


def memory(folder: Path) -> list[dict[str, Any]]:
    """For some models: the bytes that a step is said to take, and those that it takes."""
    return [_measured(*each) for each in ((1024, 8, 4096), (2048, 2, 8192), (256, 20, 16384))]


def _measured(width: int, depth: int, batch: int) -> dict[str, Any]:
    keras.backend.clear_session()
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(depth)]
    model = keras.Sequential([keras.Input((width,)), *layers])
    model.compile("adam", "mse")
    spec = tuple(tf.TensorSpec((None, width), tf.float32) for _ in range(2))
    build.build(model, spec)
    sized = tuple(tf.TensorSpec((batch, width), tf.float32) for _ in range(2))
    told = tracing.need(model, tracing.traced(model, sized))
    x = tf.constant(np.zeros((batch, width), "float32"))
    step = tf.function(model.train_step, autograph=False)
    step((x[:8], x[:8]))  # what tracing and the libraries take once
    with measure_memory(interval_seconds=0.001) as use:
        step((x, x))
    return {"told_mb": told.step / 1e6, "measured_mb": use.extra_mb}


def _own_loss(y: Any, found: Any, factor: float) -> Any:
    return factor * tf.reduce_mean(tf.square(found - tf.cast(y, tf.float32)[:, None]))


def _broken(model: Any) -> Any:
    raise AttributeError("a model like no other")


def passing(folder: Path) -> dict[str, list[str]]:
    """What is said of trainings whose batches pass, and whether they are those of plain `fit`."""
    x, y, _ = pieces.arrays()
    told = {}
    for name, call in {
        "healthy": {"x": x, "y": y},
        "large": {"x": 300 * x, "y": y},
        "short": {"x": x[:24], "y": y[:24]},
        "loss of one's own": {"x": x, "y": y},
        "squared": {"x": x, "y": y.astype("float32")[:, None] * np.ones(3, "float32")},
        "broken look": {"x": x, "y": y},
    }.items():
        place = folder / name
        place.mkdir()
        plain, ours = pieces.made(), pieces.made()
        if name == "loss of one's own":
            for model in (plain, ours):
                model.compile("adam", functools.partial(_own_loss, factor=2.0))
        if name == "squared":
            for model in (plain, ours):
                model.compile("adam", "mse")
        if name == "broken look":
            passing_by.looking.expected_by = _broken
        plain.fit(**call, batch_size=8, verbose=0)
        pieces.fit(place, ours, {**call, "batch_size": 8, "verbose": 0})
        assert pieces.weights(plain) == pieces.weights(ours)
        told[name] = [entry["data"]["check"] for entry in pieces.told(place, "event") if entry["name"] == "doctor"]
    return told
