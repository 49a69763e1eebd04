"""Small trained models made smaller."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from sklearn.datasets import load_digits

from mlflow_resilience.compression import compress
from mlflow_resilience.compression.pruning import kernels, schedule
from mlflow_resilience.errors import UsageError

_pixels, _labels = load_digits(return_X_y=True)
X, Y = (_pixels / 16).astype("float32").reshape(-1, 8, 8, 1), _labels.astype("int32")
TRAIN, HELD = (X[:1200], Y[:1200]), (X[1200:], Y[1200:])


pytestmark = pytest.mark.full  # the guide's snippet is the fast tier's sample, on a smaller model


@pytest.fixture(scope="module")
def model() -> keras.Model:
    """Learns the digits in a moment."""
    keras.utils.set_random_seed(0)
    made = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(8, 3, activation="relu", name="conv"),
            layers.BatchNormalization(name="norm"),
            layers.Flatten(),
            layers.Dense(64, activation="relu", name="hidden"),
            layers.Dropout(0.2),
            layers.Dense(10, activation="softmax", name="last"),
        ]
    )
    made.compile(keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy", metrics=["accuracy"])
    made.fit(*TRAIN, epochs=6, verbose=0)
    return made


@pytest.fixture(scope="module")
def table(model: keras.Model, tmp_path_factory: pytest.TempPathFactory) -> Any:
    before = [weights.copy() for weights in model.get_weights()]
    slots = [np.array(variable) for variable in model.optimizer.variables]
    made = compress(model, "prune:0.5:2,int8,litert,qat", TRAIN, HELD, folder=tmp_path_factory.mktemp("smaller"))
    assert all(map(np.array_equal, before, model.get_weights())), "the given model is left as it is"
    assert all(map(np.array_equal, slots, [np.array(each) for each in model.optimizer.variables]))
    return made


def test_each_is_nearly_as_good_and_smaller(table: Any) -> None:
    """Within a point of the original; zeros show in what gzip makes of the file, integers in the file."""
    original, made = table.original, {row.name: row for row in table.made}
    assert list(made) == ["pruned", "int8", "litert"] and original.metrics["accuracy"] > 0.9
    for row in made.values():
        assert row.metrics["accuracy"] > original.metrics["accuracy"] - 0.01
        assert row.records == len(HELD[0]) and row.runs > 10 and 0 < row.latency_ms <= row.latency_p95_ms
        assert row.path.stat().st_size == row.bytes
    assert made["pruned"].gzip_bytes < 0.75 * original.gzip_bytes
    assert made["int8"].bytes < 0.75 * original.bytes and made["litert"].bytes < 0.5 * original.bytes


def test_the_original_is_measured_as_keras_has_it(table: Any, model: keras.Model) -> None:
    """Loss and accuracy are those of `evaluate`."""
    expected = model.evaluate(*HELD, verbose=0, return_dict=True)
    assert table.original.metrics == pytest.approx(expected, rel=1e-5)


def test_half_of_each_kernel_is_zero_and_nothing_else(table: Any) -> None:
    """On the weights as they are loaded from the file: biases and normalisation have none."""
    (row,) = [row for row in table.made if row.name == "pruned"]
    assert set(row.sparsity) == {"conv/kernel", "hidden/kernel", "last/kernel"}
    loaded = keras.saving.load_model(row.path)
    for variable in kernels(loaded):
        assert np.mean(variable.numpy() == 0) == pytest.approx(0.5, abs=0.01) == row.sparsity[variable.path]
    assert np.all(loaded.get_layer("norm").gamma.numpy() != 0)


def test_a_weight_that_is_zero_stays_so_whatever_momentum_there_is(model: keras.Model) -> None:
    """After every step those that were zero before are zero still, and their share follows the schedule."""
    from mlflow_resilience.compression.copying import compiled
    from mlflow_resilience.compression.pruning import Masks

    copy, seen = compiled(model), []

    class Watch(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(self.model.get_layer("hidden").kernel.numpy() == 0)

    copy.fit(*TRAIN, epochs=2, batch_size=100, verbose=0, callbacks=[Masks(0.6, 2), Watch()])
    assert all(np.all(now[before]) for before, now in itertools.pairwise(seen))
    shares = [zeros.mean() for zeros in seen]
    assert shares == pytest.approx([schedule((step + 1) / 24, 0.6) for step in range(24)], abs=0.001)


def test_the_schedule_is_the_cubic_of_its_source() -> None:
    """From nothing, fast at first, to the whole share halfway."""
    assert [schedule(progress, 0.8) for progress in (0.0, 0.25, 0.5, 1.0)] == pytest.approx([0.0, 0.7, 0.8, 0.8])


def test_what_keras_does_not_quantise_is_said(table: Any) -> None:
    """Which layers, and which not; and that there is no training aware of it."""
    (row,) = [row for row in table.made if row.name == "int8"]
    assert row.note == "int8 in hidden, last, and not in conv, norm"
    assert any(text.startswith("qat: not made") for text in table.statements)


def test_the_same_seed_prunes_alike(model: keras.Model, tmp_path: Path) -> None:
    """Bit for bit, dropout and shuffling included; another seed does not."""
    found = []
    for name, seed in (("one", 4), ("same", 4), ("other", 5)):
        made = compress(model, "prune:0.5:1", TRAIN, HELD, folder=tmp_path / name, seed=seed, batch_size=64)
        found.append(keras.saving.load_model(made.rows[1].path).get_weights())
    assert all(map(np.array_equal, found[0], found[1]))
    assert not all(map(np.array_equal, found[0], found[2]))


def test_a_pipeline_and_no_validation_data(model: keras.Model, tmp_path: Path) -> None:
    """Of unknown length too; that it was measured on what it was trained on is said."""
    data = tf.data.Dataset.from_tensor_slices(TRAIN).batch(64).filter(lambda x, y: True)
    made = compress(model, "prune:0.3:1", data, folder=tmp_path)
    assert made.rows[1].records == 1200
    assert made.rows[1].sparsity["hidden/kernel"] == pytest.approx(0.3, abs=0.001)
    assert made.statements == ("measured on the training data, since there are no validation data",)


def test_what_cannot_be_made_is_a_statement(tmp_path: Path) -> None:
    """A model without a layer that Keras quantises; the rest is made."""
    keras.utils.set_random_seed(0)
    small = keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(1, 8), layers.Flatten()])
    small.compile("sgd", "mse")
    data = (X[:64], Y[:64, None].astype("float32"))
    made = compress(small, "prune:0.5:1,int8", data, folder=tmp_path)
    assert [row.name for row in made.rows] == ["original", "pruned"]
    assert made.statements[0] == (
        "not made: int8: Keras quantises Dense, EinsumDense and Embedding layers, and the model has none"
    )


def test_what_cannot_be_begun_is_one_line(model: keras.Model, tmp_path: Path) -> None:
    """A model that is not compiled, one whose class is unknown, and data that cannot be read."""

    class Own(keras.Model):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.dense = layers.Dense(width)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    with pytest.raises(UsageError, match="a compiled model is needed"):
        compress(keras.Sequential([keras.Input((4,)), layers.Dense(1)]), "int8", TRAIN, folder=tmp_path)
    own = Own(1)
    own.compile("sgd", "mse")
    own(np.zeros((1, 4), "float32"))
    with pytest.raises(UsageError, match="register its classes"):
        compress(own, "int8", TRAIN, folder=tmp_path)
    with pytest.raises(UsageError, match="data of list cannot be read"):
        compress(model, "int8", [1], folder=tmp_path)
