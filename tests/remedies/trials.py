"""Trainings with remedies, on the handwritten digits that come with scikit-learn: what runs in the children."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from mlflow_resilience import Policy, Recovery, Rung, equipping, remedies, testing
from mlflow_resilience.core.action import ClipGradients, RetryStep, RollBack
from mlflow_resilience.errors import UsageError
from mlflow_resilience.fitting import Checkpoints, Outcome, run_fit
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.recoveries import divergence
from mlflow_resilience.remedies.wanted import Remedies
from tests.remedies.texts import EPOCHS
from tests.training.fits import entries, interrupted, job_in, outcome, without_running_ahead

BATCH = 16


def digits(records: int = 160, scale: float = 16.0) -> tuple[Any, Any]:
    """Training and validation data: pictures of 8 by 8, with values up to 16 divided by ``scale``."""
    from sklearn.datasets import load_digits

    found = load_digits()
    x, y = (found.images[..., None] / scale).astype("float32"), found.target.astype("int32")
    return (x[:records], y[:records]), (x[1000:1400], y[1000:1400])


def model(*between: Any, optimizer: Any = None, rate: float = 0.01) -> keras.Model:
    """A small network, after the seed was set."""
    keras.utils.set_random_seed(3)
    made = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Flatten(),
            *(between or [layers.Dense(32, activation="relu", name="hidden")]),
            layers.Dense(10, name="last"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(optimizer or keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    return made


def treated(made: keras.Model, texts: dict[str, str], epochs: int, records: int = 160) -> tuple[keras.Model, list[Any]]:
    """With remedies, by the road that a recipe's model goes."""
    found = Remedies.from_texts(texts)
    told = found.put_to(made, steps_per_epoch=records // BATCH, epochs=epochs, validated=True)
    assert len(told.lines) >= len(texts)
    return told.model, told.callbacks


def trained(made: keras.Model, epochs: int, callbacks: Any = (), data: Any = None) -> dict[str, Any]:
    """Plain `fit`: what it ends with."""
    (x, y), held_out = data or digits()
    keras.utils.set_random_seed(5)
    history = made.fit(
        x, y, batch_size=BATCH, epochs=epochs, validation_data=held_out, callbacks=list(callbacks), verbose=0
    )
    numbers = {name: [float(value) for value in values] for name, values in history.history.items()}
    return {**outcome(made, history), "numbers": numbers}


def compared(texts: dict[str, str], epochs: int, make: Callable[[], keras.Model] = model, data: Any = None) -> Any:
    """The same training without and with ``texts``."""
    without = trained(make(), epochs, data=data)
    made, callbacks = treated(make(), texts, epochs)
    return without, trained(made, epochs, callbacks, data)


# -- rates ---------------------------------------------------------------------------------------------------------


def rates(folder: Path) -> dict[str, Any]:
    """Each schedule's rate at steps 0 to 39, for a peak of 0.1, as an optimiser has it; and as one that was loaded."""
    texts = {
        "constant": "warmup:10",
        "cosine": "warmup:10,cosine:20,floor:0.1",
        "exponential": "warmup:10,exponential:0.5:10",
        "cyclic": "warmup:4,cyclic:8:2",
        "plain cosine": "cosine:20",
        "plain exponential": "exponential:0.5:10",
    }
    return {name: _rates(folder, text) for name, text in texts.items()}


def _rates(folder: Path, text: str) -> dict[str, Any]:
    made = model(rate=0.1)
    line = remedies.schedule(made, text)
    path = folder / "made.keras"
    made.save(path)
    loaded = keras.saving.load_model(path)
    found = []
    for each in (made, loaded):
        seen = []
        for step in range(40):
            each.optimizer.iterations.assign(step)
            seen.append(float(each.optimizer.learning_rate))
        found.append(seen)
    return {"line": line, "rates": found[0], "equal": found[0] == found[1]}


# -- what each remedy does, and leaves alone -----------------------------------------------------------------------


def silent(folder: Path) -> dict[str, Any]:
    """Remedies that have no occasion: whether the training is bit for bit the one without."""
    without = trained(model(), 2)
    cases: dict[str, dict[str, str]] = {
        "nothing": {},
        "clip": {"clip": "global_norm:1e6"},
        "waiting": {"early_stopping": "loss:3", "plateau": "loss:3"},
    }
    found = {}
    for name, texts in cases.items():
        with_it = trained(*_after(model(), texts, 2))
        found[name] = all(without[key] == with_it[key] for key in ("weights", "optimizer", "epochs"))
    return found


def _after(made: keras.Model, texts: dict[str, str], epochs: int) -> tuple[keras.Model, int, list[Any]]:
    made, callbacks = treated(made, texts, epochs)
    return made, epochs, callbacks


def clipped(folder: Path) -> dict[str, Any]:
    """Inputs that nobody scaled, and a squared error: the gradients explode, unless they are clipped."""

    def make() -> keras.Model:
        made = model()
        made.compile(keras.optimizers.SGD(0.3), "mse")
        return made

    (x, y), (held_x, held_y) = digits(scale=1.0)
    data = (x, keras.utils.to_categorical(y, 10)), (held_x, keras.utils.to_categorical(held_y, 10))
    found = {}
    for text in ("none", "norm:0.1", "value:0.01", "global_norm:0.1"):
        made, _ = treated(make(), {"clip": text} if text != "none" else {}, 3)
        found[text] = trained(made, 3, data=data)["numbers"]["loss"]
    return found


def stopped(folder: Path) -> dict[str, Any]:
    """A network that learns 160 digits by heart: validation gets worse, training would go on."""
    make = lambda: model(layers.Dense(256, activation="relu"), rate=0.01)  # noqa: E731
    without, with_it = compared({"early_stopping": "val_loss:3,restore"}, 40, make)
    return {"without": without["numbers"]["val_loss"], "with": with_it["numbers"]["val_loss"]}


def lowered(folder: Path) -> dict[str, Any]:
    """A rate at which the loss jumps about."""
    make = lambda: model(rate=0.3)  # noqa: E731
    without, with_it = compared({"plateau": "loss:1,factor:0.2"}, 12, make)
    return {"without": without["numbers"], "with": with_it["numbers"]}


def decayed(folder: Path) -> dict[str, Any]:
    """The same rate, decaying to nothing; and one that is warmed up."""
    make = lambda: model(rate=0.1)  # noqa: E731
    without, with_it = compared({"schedule": "warmup:1epoch,cosine"}, 10, make)
    return {"without": without["numbers"]["loss"], "with": with_it["numbers"]["loss"]}


def regularised(folder: Path) -> dict[str, Any]:
    """A large network that learns 160 digits by heart, a quarter of them with a drawn label: what penalties do to
    its weights, and dropout to its validation loss."""
    (x, y), held_out = digits()
    y = np.concatenate([np.random.default_rng(0).integers(0, 10, 40, dtype=y.dtype), y[40:]])
    make = lambda: model(layers.Dense(256, activation="relu"), layers.Dense(256, activation="relu"))  # noqa: E731
    found = {}
    for text in ("none", "l2:0.01", "l1:0.001", "dropout:0.5"):
        made, _ = treated(make(), {"regularise": text} if text != "none" else {}, 15)
        numbers = trained(made, 15, data=((x, y), held_out))["numbers"]
        kernels = np.concatenate([layer.kernel.numpy().ravel() for layer in made.layers if hasattr(layer, "kernel")])
        small = float((np.abs(kernels) < 1e-3).mean())
        found[text] = {"norm": float(np.linalg.norm(kernels)), "small": small, "val_loss": numbers["val_loss"][-1]}
    return found


def normalised(folder: Path) -> dict[str, Any]:
    """Ten layers of sigmoids on inputs that nobody scaled: they learn nothing, unless each is normalised."""
    make = lambda: model(*(layers.Dense(32, activation="sigmoid") for _ in range(10)))  # noqa: E731
    without, with_it = compared({"regularise": "batchnorm"}, 8, make, digits(scale=1.0))
    return {"without": without["numbers"]["accuracy"][-1], "with": with_it["numbers"]["accuracy"][-1]}


def augmented(folder: Path) -> dict[str, Any]:
    """Validation digits that are moved by a pixel or two, after training with and without such a shift."""
    (x, y), (held_x, held_y) = digits(400)
    moved = np.roll(held_x, (1, 2), (1, 2)), held_y
    made, _ = treated(model(layers.Dense(64, activation="relu")), {"augment": "shift:0.25"}, 25, 400)
    plain = model(layers.Dense(64, activation="relu"))
    accuracy = {}
    for name, each in (("without", plain), ("with", made)):
        each.fit(x, y, batch_size=BATCH, epochs=25, verbose=0)
        accuracy[name] = float(each.evaluate(*moved, verbose=0, return_dict=True)["accuracy"])
    first, again = (made.predict(held_x[:50], verbose=0) for _ in range(2))
    return {**accuracy, "prediction draws": bool((first != again).any())}


# -- models taken apart --------------------------------------------------------------------------------------------


def branched() -> keras.Model:
    """Functional: a shared layer, a branch, an operation that is no layer, a model in the model, and an activation as
    a layer of its own at the end."""
    keras.utils.set_random_seed(3)
    picture = keras.Input((8, 8, 1), name="picture")
    inner = keras.Sequential(
        [keras.Input((8, 8, 1)), layers.Conv2D(4, 3, activation="relu", name="inside")], name="inner"
    )
    x = layers.Flatten()(inner(picture))
    shared = layers.Dense(16, activation="relu", kernel_regularizer="l2", name="shared")
    left = layers.Dense(16, activation="tanh", name="left")(x)
    joined = layers.Concatenate()([shared(x), left * 2.0])
    inner.trainable = False
    last = layers.Softmax()(layers.Dense(10, name="last")(joined))
    made = keras.Model(picture, {"digit": last}, name="branched")
    made.compile("adam", {"digit": "sparse_categorical_crossentropy"}, metrics={"digit": ["accuracy"]})
    return made


class Own(keras.Model):
    """A model class of the user's."""

    def call(self, inputs: Any) -> Any:
        return inputs


def rebuilt(folder: Path) -> dict[str, Any]:
    """What becomes of models: their layers, and whether weights, predictions and compilation stay as they were."""
    (x, _), _ = digits()
    found: dict[str, Any] = {}
    makers: dict[str, Callable[[], keras.Model]] = {"sequential": model, "functional": branched}
    for name, make in makers.items():
        for text in ("l2:0.01", "dropout:0.4", "batchnorm"):
            before = make()
            weights = before.get_weights()
            expected = before.predict(x, verbose=0)
            after = remedies.regularise(before, text)
            differs = _far(after.predict(x, verbose=0), expected)
            same = {
                "given": all(map(np.array_equal, weights, before.get_weights()))
                and _far(before.predict(x, verbose=0), expected),
                "trainable": _trainable(after) - _trainable(before),
            }
            found[f"{name} {text}"] = {
                "layers": [layer.name for layer in after.layers],
                "kind": type(after).__name__,
                "loss": str(after.loss) == str(before.loss),
                "optimizer": after.optimizer is before.optimizer,
                "outputs": getattr(after, "output_names", 0) == getattr(before, "output_names", 0),
                "penalties": len(after.losses),
                "differs": differs,
                **same,
            }
    return found


def _far(one: Any, other: Any) -> float:
    pairs = zip(keras.tree.flatten(one), keras.tree.flatten(other), strict=True)
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def _trainable(made: keras.Model) -> int:
    return sum(int(np.prod(each.shape)) for each in made.trainable_weights)


def refused(folder: Path) -> dict[str, str]:
    """What is said where a model or its data does not allow a remedy."""
    own = Own()
    own.compile("adam", "mse")
    flat = keras.Sequential([keras.Input((4,)), layers.Dense(1)])
    flat.compile("adam", "mse")
    scheduled = model(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 10)))
    fitted = model()
    trained(fitted, 1)
    lambdas = model(layers.Lambda(lambda each: each * 2), layers.Dense(4))
    tries: dict[str, Callable[[], Any]] = {
        "class of its own": lambda: remedies.regularise(own, "dropout:0.3"),
        "own augmented": lambda: remedies.augment(own, "flip"),
        "no picture": lambda: remedies.augment(flat, "flip"),
        "no hidden layer": lambda: remedies.regularise(flat, "dropout:0.3"),
        "trained": lambda: remedies.regularise(fitted, "l2:0.1"),
        "lambda": lambda: remedies.regularise(lambdas, "dropout:0.3"),
        "schedule twice": lambda: remedies.schedule(scheduled, "cosine:10"),
        "plateau on schedule": lambda: treated(scheduled, {"plateau": "loss:3"}, 1),
        "no length": lambda: remedies.schedule(model(), "cosine"),
        "unknown figure": lambda: treated(model(), {"early_stopping": "val_acc:3"}, 1),
        "no validation": lambda: Remedies.from_texts({"plateau": "val_loss:3"}).put_to(
            model(), steps_per_epoch=1, epochs=1, validated=False
        ),
    }
    return {name: _told(attempt) for name, attempt in tries.items()}


def _told(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except UsageError as error:
        return str(error)
    return ""


# -- together with recovery ----------------------------------------------------------------------------------------


def _call(texts: dict[str, str], rate: float = 0.05) -> tuple[keras.Model, dict[str, Any]]:
    (x, y), held_out = digits()
    made, callbacks = treated(model(rate=rate), texts, EPOCHS)
    call = {"x": x, "y": y, "batch_size": BATCH, "epochs": EPOCHS, "validation_data": held_out, "verbose": 0}
    return made, {**call, "callbacks": callbacks}


def resumed(folder: Path, texts: dict[str, str], after: int) -> dict[str, Any]:
    """Plain `fit` with remedies, and ours, interrupted and gone on with by a new model."""
    made, call = _call(texts)
    expected = outcome(made, made.fit(**call))
    found, attempts = interrupted(folder / "ours", lambda: _call(texts), after)
    return {"equal": found == expected, "attempts": attempts, "epochs": expected["epochs"]}


class Steps(keras.callbacks.Callback):
    """How far each step moves the weights: with plain SGD at a rate of 1, the norm of what was applied."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: list[float] = []

    def _weights(self) -> Any:
        return np.concatenate([each.numpy().ravel() for each in self.model.trainable_weights])

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.before = self._weights()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.moved.append(float(np.linalg.norm(self._weights() - self.before)))


def clipping() -> tuple[keras.Model, dict[str, Any]]:
    (x, y), _ = digits()
    made = model(optimizer=keras.optimizers.SGD(1.0))
    call = {"x": x, "y": y, "batch_size": BATCH, "epochs": 4, "verbose": 0, "shuffle": False}
    return made, {**call, "callbacks": [Steps()]}


#: Clip at the first explosion, and by half at the next.
LADDER = replace(divergence.RECOVERY, ladder=(Rung((ClipGradients(0.5), RollBack()), times=3),))
#: The same for what user code raises, at the failed step itself.
IN_PLACE = Recovery(
    failure_class="of_mine",
    domain="workload",
    matches=lambda fault: fault.is_a("RuntimeError"),
    ladder=(Rung((ClipGradients(0.1), RetryStep())),),
    hint="",
)


def exploded(folder: Path, policy: str, faults: str) -> dict[str, Any]:
    """A training that clips its gradients once something has happened: how far its steps went."""
    chosen = {
        "ladder": Policy().with_recovery(LADDER),
        "in_place": Policy().with_recovery(IN_PLACE),
        "strict": Policy.strict().with_recovery(LADDER),
        "default": Policy(),
    }[policy]
    made, call = clipping()
    ended = _struck(folder, made, call, chosen, faults)
    assert ended.history is not None
    return {"moved": call["callbacks"][0].moved, **outcome(made, ended.history)}


def bounded(folder: Path, kind: str) -> list[float]:
    """How far steps go that are clipped to 0.1 from the ninth on: of sparse gradients, of a scaled loss, under XLA, in
    pieces, and on two replicas, whose batch is split."""
    made, call = _KINDS[kind]()
    watching = Steps()
    call |= {"batch_size": BATCH, "epochs": 2, "verbose": 0, "shuffle": False, "callbacks": [watching]}
    policy = Policy().with_recovery(IN_PLACE)
    ended = _struck(folder, made, call, policy, "raise@9,host_oom@9" if kind == "pieces" else "raise@9")
    assert ended.history is not None
    return watching.moved


def _plain(optimizer: Any = None, **compiling: Any) -> tuple[keras.Model, dict[str, Any]]:
    (x, y), _ = digits()
    made = model(optimizer=keras.optimizers.SGD(1.0))
    made.compile(optimizer or keras.optimizers.SGD(1.0), made.loss, metrics=["accuracy"], **compiling)
    return made, {"x": x, "y": y}


def _embedded() -> tuple[keras.Model, dict[str, Any]]:
    (_, y), _ = digits()
    made = model()
    words = (np.arange(len(y)) % BATCH)[:, None]  # none twice in a batch: those rows would count apart
    embedding = [keras.Input((1,)), layers.Embedding(BATCH, 4), layers.Flatten(), layers.Dense(10)]
    embedded = keras.Sequential(embedding)
    embedded.compile(keras.optimizers.SGD(1.0), made.loss)
    return embedded, {"x": words, "y": y}


def _replicated() -> tuple[keras.Model, dict[str, Any]]:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        return _plain()


_KINDS: dict[str, Callable[[], tuple[keras.Model, dict[str, Any]]]] = {
    "sparse": _embedded,
    "scaled": lambda: _plain(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=1024.0)),
    "jit": lambda: _plain(jit_compile=True),
    "eager": lambda: _plain(run_eagerly=True),
    "pieces": _plain,
    "replicas": _replicated,
}


def clipped_on(folder: Path) -> dict[str, Any]:
    """Clipped by a rung, interrupted, and gone on with by a new model: as one that was not interrupted."""
    policy = Policy().with_recovery(LADDER)
    whole = exploded(folder / "whole", "ladder", "spike@24")
    for faults, after in (("spike@24", 29), ("none", None)):
        made, call = clipping()
        call["callbacks"].append(Leaving(after))
        ended = _struck(folder / "cut", made, call, policy, faults)
    assert ended.history is not None
    found = outcome(made, ended.history)
    last = [each for each in entries(folder / "cut") if each["kind"] == "attempt"][-1]
    same = {key: whole[key] == found[key] for key in ("weights", "optimizer", "epochs")}
    return {"same": all(same.values()), "moved": call["callbacks"][0].moved, "last": last}


def _struck(folder: Path, made: keras.Model, call: dict[str, Any], policy: Policy, faults: str) -> Outcome:
    job = job_in(folder)
    checkpoints = Checkpoints(local="2steps", log_models=False)
    try:
        with without_running_ahead():  # which checkpoint a fault finds does not hang on how fast one is written
            return run_fit(job, made, call, policy=policy, checkpoints=checkpoints, faults=testing.parse(faults))
    finally:
        job.journal.close()


class Leaving(keras.callbacks.Callback):
    """Asks the training to end after so many steps of this process."""

    def __init__(self, after: int | None) -> None:
        super().__init__()
        self._after, self._steps = after, 0

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._steps += 1
        if self._steps == self._after:
            raise KeyboardInterrupt


def run_code(folder: Path, code: str) -> None:
    """A snippet of the guide."""
    exec(compile(code, "remedies.md", "exec"), {})


def keys(folder: Path) -> dict[str, Any]:
    """What parameters add to the resume key of a job."""
    (x, y), held_out = digits()
    call = {"x": x, "y": y, "batch_size": BATCH, "validation_data": held_out}
    cases: dict[str, dict[str, str]] = {
        "nothing": {},
        "alive": {"device": "threads:2,memory_growth", "diagnostics": "20"},
        "clip": {"clip": "norm:1"},
        "clip again": {"clip": "norm: 1.0"},
        "cosine": {"schedule": "cosine", "epochs": "3"},
        "longer cosine": {"schedule": "cosine", "epochs": "4"},
        "given cosine": {"schedule": "cosine:30", "epochs": "4"},
    }
    return {name: equipping.treat(model(), call, Parameters.from_text(given)).identity for name, given in cases.items()}
