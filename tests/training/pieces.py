"""Trainings that run out of memory: what runs in the children."""

from __future__ import annotations

import dataclasses
import functools
import shutil
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience import fitting, testing
from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.fitting import Checkpoints, Outcome, run_fit
from mlflow_resilience.job import Job
from mlflow_resilience.spool.folder import JobFolder, jobs
from mlflow_resilience.spool.journal import read
from mlflow_resilience.strikes import STRIKES
from mlflow_resilience.training.trainer import KerasTrainer

BATCH = 8
RECORDS = 76  # ten batches, the last one of four records


class Hungry(keras.layers.Layer):
    """Really runs out of memory for more than so many records at once. For eager models."""

    def __init__(self, training: int = 10**9, testing: int = 10**9) -> None:
        super().__init__()
        self.most = {True: training, False: testing}

    def call(self, inputs: Any, training: bool = False) -> Any:
        if inputs.shape[0] is not None and inputs.shape[0] > self.most[bool(training)]:
            STRIKES["oom"](None, None)  # type: ignore[arg-type]  # memory has no place
        return inputs


class Stepping(keras.Model):
    """A step of its own, with a loss that is weighted."""

    def train_step(self, data: Any) -> Any:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            found = self(x, training=True)
            loss = self.compute_loss(x, y, found, weight) + 1e-3 * tf.reduce_sum(tf.square(self.trainable_weights[0]))
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        self._loss_tracker.update_state(loss, sample_weight=tf.shape(x)[0])
        return self.compute_metrics(x, y, found, weight)


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x, weight = random.normal(size=(RECORDS, 6)), random.uniform(0.5, 2.0, RECORDS)
    return x.astype("float32"), random.integers(0, 3, RECORDS), weight.astype("float32")


def made(*, optimizer: Any = None, kind: Any = keras.Model, extra: Any = (), **compiling: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((6,))
    outputs = inputs
    for layer in (keras.layers.Dense(8, activation="relu"), *extra, keras.layers.Dense(3)):
        outputs = layer(outputs)
    model = kind(inputs, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer or keras.optimizers.Adam(0.01), loss, **compiling)
    return model


def call(**more: Any) -> dict[str, Any]:
    x, y, _ = arrays()
    return {"x": x, "y": y, "batch_size": BATCH, "epochs": 3, "verbose": 0, "shuffle": False, **more}


def fit(folder: Path | JobFolder, model: keras.Model, arguments: dict[str, Any], **how: Any) -> Outcome:
    """In the job of ``folder``, which is one of its own; what came out."""
    job = job_of(folder, how.pop("supervised", False))
    checkpoints = Checkpoints(local="2steps", log_models=False)
    faults, policy = testing.parse(how.pop("faults", "none")), how.pop("policy", Policy())
    try:
        return run_fit(job, model, arguments, policy=policy, checkpoints=checkpoints, faults=faults)
    finally:
        job.journal.close()


def place_of(folder: Path | JobFolder) -> JobFolder:
    """The only job of a folder, made where there is none; or the job that is given."""
    if isinstance(folder, JobFolder):
        return folder
    found = jobs(folder)
    return found[0] if found else JobFolder.create(folder)


def job_of(folder: Path | JobFolder, supervised: bool = False) -> Job:
    place = place_of(folder)
    return Job(folder=place, journal=place.open_journal(), supervised=supervised, entry={"started": time.time()})


def told(folder: Path | JobFolder, kind: str) -> list[dict[str, Any]]:
    return [entry for entry, _ in read(place_of(folder).journal) if entry["kind"] == kind]


def weights(model: keras.Model) -> list[Any]:
    return [np.asarray(weight).tolist() for weight in model.get_weights()]


def course(folder: Path | JobFolder) -> dict[str, Any]:
    """The attempts of a job: their pieces, how they ended, and what was said."""
    return {
        "pieces": [entry["settings"]["accumulation"] for entry in told(folder, "attempt")],
        "validation": [entry["settings"]["validation_pieces"] for entry in told(folder, "attempt")],
        "ends": [entry["status"] for entry in told(folder, "attempt_ended")],
        "events": [entry["name"] for entry in told(folder, "event")],
        "changes": [entry["text"] for entry in told(folder, "semantic_change")],
        "faults": [entry["failure_class"] for entry in told(folder, "fault")],
    }


# -- equal to an undisturbed training --------------------------------------------------------------------------------


def _schedule() -> Any:
    return keras.optimizers.schedules.ExponentialDecay(0.05, decay_steps=3, decay_rate=0.7)


KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "partial": ({}, {}),
    "weighted": ({}, {"sample_weight": arrays()[2]}),
    "own_step": ({"kind": Stepping}, {"sample_weight": arrays()[2]}),
    "averaged": ({"optimizer": functools.partial(keras.optimizers.Adam, 0.01, use_ema=True)}, {}),
    "scheduled": ({"optimizer": lambda: keras.optimizers.SGD(_schedule(), momentum=0.9)}, {}),
    "clipped": ({"optimizer": lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.1)}, {}),
    "jit": ({"jit_compile": True}, {}),
    "everything": (
        {"kind": Stepping, "optimizer": lambda: keras.optimizers.Adam(_schedule(), use_ema=True, global_clipnorm=1.0)},
        {"sample_weight": arrays()[2]},
    ),
}


def alike(folder: Path, kinds: list[str]) -> dict[str, Any]:
    """For each kind: how far its weights, trained in four pieces, are from those of plain `fit`."""
    return {kind: _alike(folder / kind, *KINDS[kind]) for kind in kinds}


def _alike(folder: Path, making: dict[str, Any], calling: dict[str, Any]) -> dict[str, Any]:
    def make() -> keras.Model:
        return made(**{k: v() if k == "optimizer" else v for k, v in making.items()})

    plain, ours = make(), make()
    plain.fit(**call(**calling, epochs=2))
    folder.mkdir()
    _begin_with(folder, 4)
    fit(folder, ours, call(**calling, epochs=2))
    norms = [point for entry in told(folder, "points") for point in entry["points"] if point[0].startswith("gradient/")]
    pairs = zip(plain.get_weights(), ours.get_weights(), strict=True)
    return {
        "distance": max(float(np.abs(a - b).max()) for a, b in pairs),
        "iterations": [int(model.optimizer.iterations.numpy()) for model in (plain, ours)],
        "pieces": course(folder)["pieces"][-1],
        "norms": len(norms),
    }


def _begin_with(folder: Path, pieces: int) -> None:
    job = job_of(folder)
    settings = Settings(accumulation=pieces).to_dict()
    job.journal.append("attempt", attempt=1, step=0, epoch=0, settings=settings, reason="", pid=0)
    job.journal.append("attempt_ended", attempt=1, status="FAILED", step=0)
    job.journal.close()


# -- growing back ----------------------------------------------------------------------------------------------------


def grown(folder: Path) -> dict[str, Any]:
    """Six clean steps are enough here. The try at fewer pieces fails; a second one is not made."""
    fitting.KerasTrainer = functools.partial(KerasTrainer, clean_steps=6)  # type: ignore[misc, assignment]
    plain, ours = made(run_eagerly=True), made(run_eagerly=True)
    plain.fit(**call())
    fit(folder, ours, call(), faults="oom@4,oom@13")
    starts = [entry["step"] for entry in told(folder, "attempt")]
    return {**course(folder), "starts": starts, "plain": weights(plain), "ours": weights(ours)}


# -- what a device can hold ------------------------------------------------------------------------------------------


def held(folder: Path) -> dict[str, Any]:
    """Validation that does not fit; a size that is found, offered, taken over; and a model that fits in no way."""
    x, y, _ = arrays()
    plain = made(run_eagerly=True)
    plain.fit(**call(validation_data=(x, y), epochs=1))
    ours = made(extra=[Hungry(testing=4)], run_eagerly=True)
    fit(folder / "validation", ours, call(validation_data=(x, y), epochs=1))
    same = all(np.array_equal(a, b) for a, b in zip(plain.get_weights(), ours.get_weights(), strict=True))
    home = folder / "home"
    return {
        "validation": {**course(folder / "validation"), "same": same},
        "first": _next_job(home),
        "second": _next_job(home),
        "strict": _next_job(home, policy=Policy.strict()),
        "resumed": _resumed(home, folder / "resumed"),
        "no_fit": _no_fit(folder / "no_fit"),
    }


def _next_job(home: Path, **how: Any) -> dict[str, Any]:
    """A new job of the same training in the same home."""
    place = JobFolder.create(home)
    fit(place, made(extra=[Hungry(training=4)], run_eagerly=True), call(epochs=1), **how)
    return course(place)


def _resumed(home: Path, folder: Path) -> dict[str, Any]:
    """A job that finds another one's checkpoints and none of its journal."""
    job = job_of(folder)
    job.journal.close()
    source = next(each for each in jobs(home) if any(each.checkpoints.glob("step-*")))
    shutil.copytree(source.checkpoints, job.folder.checkpoints, dirs_exist_ok=True)
    fit(folder, made(extra=[Hungry(training=4)], run_eagerly=True), call(epochs=2))
    return course(folder)


def _no_fit(folder: Path) -> dict[str, Any]:
    try:
        fit(folder, made(extra=[Hungry(training=0)], run_eagerly=True), call(epochs=1))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "cause": type(error.__cause__).__name__, **course(folder)}
    return {}


# -- a condemned process ---------------------------------------------------------------------------------------------


def condemned(folder: Path) -> dict[str, Any]:
    """Out of memory under XLA: the process that it happened in, which somebody would start again."""
    ended = fit(folder, made(jit_compile=True), call(), faults="oom@9", supervised=True)
    decision = ended.new_process.decision if ended.new_process is not None else None
    saved = [entry["step"] for entry in told(folder, "checkpoint")]
    fault = next(index for index, entry in enumerate(_all(folder)) if entry["kind"] == "fault")
    later = [entry["step"] for entry in _all(folder)[fault:] if entry["kind"] == "checkpoint"]
    settings = dataclasses.asdict(decision.settings) if decision is not None else {}
    return {"new_process": decision is not None, "settings": settings, "saved": saved, "later": later}


def gone_on(folder: Path) -> dict[str, Any]:
    """The process after it, and a training that nothing happened to."""
    plain, ours = made(jit_compile=True), made(jit_compile=True)
    plain.fit(**call())
    fit(folder, ours, call(), faults="oom@9", supervised=True)
    return {**course(folder), "plain": weights(plain), "ours": weights(ours)}


def _all(folder: Path) -> list[dict[str, Any]]:
    return [entry for entry, _ in read(jobs(folder)[0].journal)]


# -- memory between attempts -----------------------------------------------------------------------------------------


def leaking(folder: Path) -> dict[str, Any]:
    """Each attempt leaves 200 MB more behind than the one before."""
    kept: list[Any] = []

    class Leak(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            kept.append(np.ones(200_000_000 + 100_000_000 * len(kept), dtype="uint8"))

        def get_state(self) -> dict[str, Any]:
            return {}

        def set_state(self, state: dict[str, Any]) -> None:
            pass

    model, faults = made(run_eagerly=True), "raise@5,raise@9,raise@13,raise@17"
    ended = fit(folder, model, call(callbacks=[Leak()]), faults=faults, supervised=True)
    sizes = [entry["data"] for entry in told(folder, "event") if entry["name"] == "memory_released"]
    return {"new_process": ended.new_process is not None, "sizes": sizes, "pieces": course(folder)["pieces"]}
