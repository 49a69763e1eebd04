"""What a warm restart or a cyclic rate would change, measured: some steps each way, after which all is as it was."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from mlflow_resilience.diagnostics.measuring import applied
from mlflow_resilience.errors import UsageError
from mlflow_resilience.training import build, randomness, state

#: The highest rate that is tried, as a multiple of the present one.
PEAK = 10.0
#: A way is worth taking when its loss is lower by this part than that of going on as it is.
GAIN = 0.02

Way = Callable[[float], float]  # from the part that is done, 0 to 1, to a factor of the rate

WAYS: dict[str, Way] = {
    "as it is": lambda done: 1.0,
    # SGDR (Loshchilov and Hutter, 2017): the rate is raised at once, and falls along half a cosine.
    "warm restart": lambda done: 1.0 + (PEAK - 1.0) * 0.5 * (1.0 + math.cos(math.pi * done)),
    # CLR (Smith, 2017), "triangular": up and down in a straight line, twice.
    "cyclic rate": lambda done: 1.0 + (PEAK - 1.0) * (1.0 - abs(1.0 - (4.0 * done) % 2.0)),
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The mean loss over the same records, in inference mode: ``before``, and after so many ``steps`` each way."""

    before: float
    losses: dict[str, float]
    steps: int
    rate: float

    @property
    def gain(self) -> tuple[str, float]:
        """The best way other than going on as it is, and by which part its loss is lower."""
        plain = self.losses["as it is"]
        others = {way: loss for way, loss in self.losses.items() if way != "as it is" and math.isfinite(loss)}
        if not others or not plain > 0:
            return "as it is", 0.0
        best = min(others, key=lambda way: others[way])
        return best, 1.0 - others[best] / plain

    @property
    def text(self) -> str:
        """What was found, in one line."""
        way, gain = self.gain
        told = ", ".join(f"{name} {loss:.4g}" for name, loss in self.losses.items())
        measured = f"loss {self.before:.4g}, after {self.steps} steps: {told}"
        if gain < GAIN:
            return f"{measured}; neither a warm restart nor a cyclic rate helps"
        return f"{measured}; a {way} (up to {PEAK * self.rate:.3g}) lowers it by {gain:.0%}"


def try_rates(model: keras.Model, data: Any, *, steps: int = 50) -> Trial:
    """Train ``steps`` steps on the first batches of ``data`` in each way, from the same state and on the same batches.

    Weights, optimiser, metrics and random state are kept and put back, bit for bit. Not to be called from within a
    training. ``data`` yields batches as `fit` takes them (a `tf.data` pipeline that shuffles draws its next seed when
    it is read). Raises UsageError without data, or for a model over several replicas.
    """
    with randomness.untouched():
        batches = [_tensors(batch) for batch in itertools.islice(iter(data), steps)]
        if not batches or steps < 1:
            raise UsageError("try_rates: there is no batch to train on")
        if model.distribute_strategy.num_replicas_in_sync > 1:
            raise UsageError("try_rates: the model is spread over several replicas; try it on one")
        build.build(model, tf.nest.map_structure(tf.TensorSpec.from_tensor, batches[0]))
        rate = float(model.optimizer.learning_rate)
        kept = state.snapshot(model)
        factor = tf.Variable(1.0, trainable=False)
        train, loss = _functions(model)
        found = {}
        try:
            with _scaled(model, factor):
                before = _mean(loss, batches)
                for name, way in WAYS.items():
                    state.restore(model, kept)
                    _train(train, batches, steps, way, factor)
                    found[name] = _mean(loss, batches)
        finally:
            state.restore(model, kept)
    return Trial(before=before, losses=found, steps=steps, rate=rate)


def _train(train: Callable[[Any], Any], batches: list[Any], steps: int, way: Way, factor: tf.Variable) -> None:
    for step, batch in enumerate(itertools.islice(itertools.cycle(batches), steps)):
        factor.assign(way(step / max(1, steps - 1)))
        train(batch)


def _functions(model: keras.Model) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """A step of the model's own, and the loss of a batch in inference mode."""

    def loss(batch: Any) -> Any:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        return model.compute_loss(x=x, y=y, y_pred=model(x, training=False), sample_weight=weight, training=False)

    return (
        tf.function(lambda batch: model.train_step(batch), autograph=False, reduce_retracing=True),
        tf.function(loss, autograph=False, reduce_retracing=True),
    )


def _mean(loss: Callable[[Any], Any], batches: list[Any]) -> float:
    return sum(float(loss(batch)) for batch in batches) / len(batches)


@contextlib.contextmanager
def _scaled(model: keras.Model, factor: tf.Variable) -> Iterator[None]:
    """Every rate times ``factor``, whether a variable or a schedule; past Keras, which would track the change."""
    held = [(each, vars(each)["_learning_rate"], float(each.learning_rate)) for each in applied(model)]
    try:
        for optimizer, _, rate in held:
            vars(optimizer)["_learning_rate"] = lambda rate=rate: rate * factor
        yield
    finally:
        for optimizer, given, _ in held:
            vars(optimizer)["_learning_rate"] = given


def _tensors(batch: Any) -> Any:
    return tf.nest.map_structure(tf.convert_to_tensor, batch)
