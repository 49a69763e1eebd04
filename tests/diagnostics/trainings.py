"""Small real trainings, each made to show one symptom, and healthy ones of several kinds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from sklearn.datasets import load_digits

from mlflow_resilience.diagnostics.callback import Diagnostics

Data = tuple[np.ndarray, np.ndarray]
_x, _y = load_digits(return_X_y=True)
DIGITS: Data = ((_x / 16).astype("float32"), _y.astype("int32"))


def train(
    seed: int,
    layers: Callable[[], list[Any]],
    optimizer: Callable[[], Any],
    data: Data,
    validation: Data | None,
    *,
    epochs: int,
    loss: str = "sparse_categorical_crossentropy",
    every: int = 5,
    **fit: Any,
) -> Diagnostics:
    """Train such a model, and return what watched it."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input(data[0].shape[1:]), *layers()])
    model.compile(optimizer=optimizer(), loss=loss)
    diagnostics = Diagnostics(every=every, log=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a failure of the diagnostics is one
        model.fit(*data, validation_data=validation, epochs=epochs, verbose=0, callbacks=[diagnostics], **fit)
    return diagnostics


def _dense(units: int, activation: str = "relu", **more: Any) -> Any:
    return keras.layers.Dense(units, activation=activation, **more)


def _split(seed: int, count: int, rest: int = 300) -> tuple[Data, Data]:
    order = np.random.default_rng(seed).permutation(len(DIGITS[0]))
    first, second = order[:count], order[-rest:]
    return (DIGITS[0][first], DIGITS[1][first]), (DIGITS[0][second], DIGITS[1][second])


# -- made to show a symptom --------------------------------------------------------------------------------------------


def vanishing(seed: int) -> Diagnostics:
    """Ten layers of sigmoid: each passes a quarter of its gradient on, at most."""
    data, validation = _split(seed, 640)
    layers = lambda: [*[_dense(24, "sigmoid") for _ in range(10)], _dense(10, "softmax")]  # noqa: E731
    return train(seed, layers, lambda: keras.optimizers.SGD(0.1), data, validation, epochs=4)


def exploding(seed: int) -> Diagnostics:
    """A recurrent network that reads 64 pixels one by one, and doubles what it remembers at each."""
    data, validation = _split(seed, 320)
    initial = keras.initializers.Orthogonal(gain=2.0, seed=seed)
    layers = lambda: [  # noqa: E731
        keras.layers.Reshape((64, 1)),
        keras.layers.SimpleRNN(16, activation="linear", recurrent_initializer=initial),
        _dense(10, "softmax"),
    ]
    return train(seed, layers, lambda: keras.optimizers.SGD(0.01), data, validation, epochs=2, every=2)


def diverging(seed: int) -> Diagnostics:
    """Regression with a rate at which the error grows from step to step, up to infinity."""
    data = _line(seed, 256)
    return train(seed, lambda: [_dense(1, "linear")], lambda: keras.optimizers.SGD(2.0), data, None, epochs=10,
                 loss="mse", every=2)  # fmt: skip


def dead_relu(seed: int) -> Diagnostics:
    """Biases so far below zero that most units never answer to any record."""
    data, validation = _split(seed, 640)
    bias = keras.initializers.RandomUniform(-8.0, 0.5, seed=seed)
    layers = lambda: [_dense(64, bias_initializer=bias), _dense(10, "softmax")]  # noqa: E731
    return train(seed, layers, lambda: keras.optimizers.Adam(2e-3), data, validation, epochs=4)


def overfitting(seed: int) -> Diagnostics:
    """Sixty records, a third of them with a wrong label, and a large model."""
    data, validation = _split(seed, 60)
    wrong = np.random.default_rng(seed).integers(0, 10, 20)
    data[1][:20] = wrong
    layers = lambda: [_dense(256), _dense(256), _dense(10, "softmax")]  # noqa: E731
    return train(seed, layers, lambda: keras.optimizers.Adam(2e-3), data, validation, epochs=40)


def underfitting(seed: int) -> Diagnostics:
    """A linear model of a product of two inputs, of which it can learn nothing."""
    data, validation = _product(seed, 1024), _product(seed + 1000, 1024)
    return train(seed, lambda: [_dense(1, "linear", kernel_initializer="zeros")], lambda: keras.optimizers.Adam(1e-2),
                 data, validation, epochs=15, loss="mse", batch_size=64)  # fmt: skip


def oscillation(seed: int) -> Diagnostics:
    """Regression on all records at once with so much momentum that it runs through the valley and back."""
    data = _line(seed, 256)
    return train(seed, lambda: [_dense(1, "linear")], lambda: keras.optimizers.SGD(0.1, momentum=0.998), data, None,
                 epochs=24, loss="mse", every=2, batch_size=256)  # fmt: skip


def plateau(seed: int) -> Diagnostics:
    """A product of two inputs and a model at zero: all gradients but the last layer's bias are zero, as at a saddle."""
    data = _product(seed, 1024)
    layers = lambda: [  # noqa: E731
        _dense(16, "tanh", kernel_initializer=keras.initializers.RandomNormal(stddev=1e-3, seed=seed)),
        _dense(1, "linear", kernel_initializer=keras.initializers.RandomNormal(stddev=1e-3, seed=seed)),
    ]
    return train(seed, layers, lambda: keras.optimizers.SGD(0.02), data, None, epochs=15, loss="mse", batch_size=64)


def too_low(seed: int) -> Diagnostics:
    """A rate of 1e-6."""
    data, validation = _split(seed, 640)
    layers = lambda: [_dense(32), _dense(10, "softmax")]  # noqa: E731
    return train(seed, layers, lambda: keras.optimizers.SGD(1e-6), data, validation, epochs=4)


def too_high(seed: int) -> Diagnostics:
    """Regression on noise alone, at a rate at which each small batch turns the weights round."""
    x, y = _line(seed, 400)
    noise = np.random.default_rng(seed + 1000).normal(size=y.shape).astype("float32")
    return train(seed, lambda: [_dense(1, "linear")], lambda: keras.optimizers.SGD(0.25), (x, noise), None,
                 epochs=12, loss="mse", every=50, batch_size=8)  # fmt: skip


# -- healthy -----------------------------------------------------------------------------------------------------------


def healthy_dense(seed: int) -> Diagnostics:
    """Digits, two dense layers, Adam."""
    data, validation = _split(seed, 1200)
    layers = lambda: [_dense(64), _dense(32), _dense(10, "softmax")]  # noqa: E731
    return train(seed, layers, lambda: keras.optimizers.Adam(2e-3), data, validation, epochs=12)


def healthy_convolution(seed: int) -> Diagnostics:
    """Digits, convolutions with batch normalisation, SGD with momentum and a decaying rate."""
    data, validation = _split(seed, 1200)
    layers = lambda: [  # noqa: E731
        keras.layers.Reshape((8, 8, 1)),
        keras.layers.Conv2D(8, 3, use_bias=False),
        keras.layers.BatchNormalization(),
        keras.layers.ReLU(),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.2),
        _dense(10, "softmax"),
    ]
    rate = keras.optimizers.schedules.CosineDecay(0.05, 38 * 8)
    return train(seed, layers, lambda: keras.optimizers.SGD(rate, momentum=0.9), data, validation, epochs=8)


def healthy_regression(seed: int) -> Diagnostics:
    """A smooth function with some noise, tanh, Adam."""
    data, validation = _product(seed, 512, noise=0.1), _product(seed + 1000, 256, noise=0.1)
    layers = lambda: [_dense(32, "tanh"), _dense(1, "linear")]  # noqa: E731
    return train(seed, layers, lambda: keras.optimizers.Adam(1e-2), data, validation, epochs=12, loss="mse")


def healthy_recurrent(seed: int) -> Diagnostics:
    """Digits read row by row."""
    data, validation = _split(seed, 800)
    layers = lambda: [keras.layers.Reshape((8, 8)), keras.layers.LSTM(24), _dense(10, "softmax")]  # noqa: E731
    return train(seed, layers, lambda: keras.optimizers.Adam(5e-3), data, validation, epochs=6)


SICK: dict[str, tuple[Callable[[int], Diagnostics], str]] = {
    "vanishing": (vanishing, "vanishing"),
    "exploding": (exploding, "exploding"),
    "diverging": (diverging, "exploding"),
    "dead_relu": (dead_relu, "dead_units"),
    "overfitting": (overfitting, "overfitting"),
    "underfitting": (underfitting, "underfitting"),
    "oscillation": (oscillation, "oscillation"),
    "plateau": (plateau, "plateau"),
    "too_low": (too_low, "rate_low"),
    "too_high": (too_high, "rate_high"),
}
HEALTHY = {
    each.__name__.removeprefix("healthy_"): each
    for each in (healthy_dense, healthy_convolution, healthy_regression, healthy_recurrent)
}


def _line(seed: int, count: int) -> Data:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(count, 4)).astype("float32")
    return x, (x @ np.array([1.0, -2.0, 0.5, 1.0], "float32"))[:, None]


def _product(seed: int, count: int, noise: float = 0.0) -> Data:
    draw = np.random.default_rng(seed)
    x = draw.uniform(-1.5, 1.5, size=(count, 2)).astype("float32")
    y = x[:, :1] * x[:, 1:] + noise * draw.normal(size=(count, 1))
    return x, y.astype("float32")
