"""Models and optimisers whose state is more than weights: each trained plainly, and interrupted and resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.training.fits import interrupted, outcome
from tests.training.pipelines import BATCH, arrays

Made = tuple[keras.Model, dict[str, Any]]


def _call(model: keras.Model, **more: Any) -> Made:
    x, y = arrays()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(40).batch(BATCH)
    return model, {"x": data, "epochs": 2, "verbose": 0, **more}


def _dense(*extra: keras.layers.Layer, built: bool = True) -> keras.Sequential:
    layers = [keras.layers.Flatten(), *extra, keras.layers.Dropout(0.2), keras.layers.Dense(3)]
    return keras.Sequential([keras.layers.Input((4, 4, 1)), *layers] if built else layers)


def _compiled(model: keras.Model, optimizer: Any) -> keras.Model:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def momentum() -> Made:
    return _call(_compiled(_dense(), keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True)))


def moving_average() -> Made:
    optimizer = keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=4)
    return _call(_compiled(_dense(), optimizer))


def rate_schedule() -> Made:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.05, decay_steps=3, decay_rate=0.7)
    return _call(_compiled(_dense(), keras.optimizers.Adam(schedule)))


def mixed_float16() -> Made:
    keras.config.set_dtype_policy("mixed_float16")
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), dynamic_growth_steps=3)
    return _call(_compiled(_dense(), optimizer))


def bfloat16() -> Made:
    keras.config.set_dtype_policy("bfloat16")
    return _call(_compiled(_dense(), keras.optimizers.Adam(0.01)))


def unbuilt() -> Made:
    return _call(_compiled(_dense(keras.layers.BatchNormalization(), built=False), "adam"))


class Subclassed(keras.Model):
    """Built by its first batch, with a plain variable that no list of Keras's holds and that decides the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = keras.layers.Dense(3)
        self.temperature = tf.Variable(1.0, trainable=False)
        self.generator = tf.random.Generator.from_seed(5)

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(3,), initializer="random_normal", name="scale")
        super().build(shape)

    def call(self, inputs: Any, training: bool = False) -> Any:
        flat = tf.reshape(inputs, (-1, 16))
        if training:
            self.temperature.assign(self.temperature * 1.1)
            flat = flat + self.generator.normal(tf.shape(flat), stddev=0.1)
        return self.layer(flat) * self.scale / self.temperature


def subclassed() -> Made:
    return _call(_compiled(Subclassed(), keras.optimizers.Adam(0.01)))


class Adversarial(keras.Model):
    """Two networks with an optimiser each, trained by a step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(3)
        self.maker = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(16)])
        self.critic = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(1)])
        self.total = keras.metrics.Mean(name="loss")

    def compile(self, **optimizers: Any) -> None:
        super().compile()
        self.optimizers = optimizers

    def train_step(self, data: Any) -> Any:
        real = tf.reshape(data[0], (-1, 16))
        noise = keras.random.normal((tf.shape(real)[0], 4), seed=self.seeds)
        with tf.GradientTape(persistent=True) as tape:
            made = self.maker(noise)
            critic_loss = tf.reduce_mean(tf.nn.softplus(self.critic(made)) + tf.nn.softplus(-self.critic(real)))
            maker_loss = tf.reduce_mean(tf.nn.softplus(-self.critic(made)))
        for name, network, loss in (("critic", self.critic, critic_loss), ("maker", self.maker, maker_loss)):
            gradients = tape.gradient(loss, network.trainable_variables)
            self.optimizers[name].apply(gradients, network.trainable_variables)
        self.total.update_state(critic_loss + maker_loss)
        return {"loss": self.total.result()}


def two_optimizers() -> Made:
    model = Adversarial()
    model.compile(critic=keras.optimizers.Adam(0.01), maker=keras.optimizers.SGD(0.05, momentum=0.9))
    return _call(model)


def augmentation_layer() -> Made:
    flip = keras.layers.RandomFlip("horizontal", seed=2)
    x, y = arrays()
    data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda image, label: (flip(image, training=True), label))
    return _call(_compiled(_dense(), "adam"), x=data.batch(BATCH))


def early_stopping() -> Made:
    """Best weights and patience cross the interruption; they decide what the model ends as."""
    stop = keras.callbacks.EarlyStopping("loss", patience=1, min_delta=0.5, restore_best_weights=True)
    return _call(_compiled(_dense(), keras.optimizers.Adam(0.01)), callbacks=[stop], epochs=5)


KINDS: dict[str, Callable[[], Made]] = {
    made.__name__: made
    for made in (
        momentum,
        moving_average,
        rate_schedule,
        mixed_float16,
        bfloat16,
        unbuilt,
        subclassed,
        two_optimizers,
        augmentation_layer,
        early_stopping,
    )
}


def both(folder: Path, kind: str) -> dict[str, Any]:
    """How the kind ends plainly, and how it ends when it is interrupted in mid-epoch and goes on in a new model."""
    model, call = _made(kind)
    plain = outcome(model, model.fit(**call))
    ours, starts = interrupted(folder, lambda: _made(kind), after=14)
    return {"plain": plain, "ours": ours, "starts": starts}


def _made(kind: str) -> Made:
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(11)
    np.random.seed(3)
    return KINDS[kind]()
