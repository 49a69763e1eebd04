"""The cases of people whose resume went wrong, tried on ours: each function runs in a child and tells what it saw."""

from __future__ import annotations

import os
import shutil
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool.folder import jobs
from mlflow_resilience.training import checkpoint
from tests.training.fits import Interruption, entries, fit_in, outcome, without_running_ahead

Callbacks = list[keras.callbacks.Callback]
RECORDS, BATCH, STEPS = 40, 8, 5


def data() -> tf.data.Dataset:
    """Record ``i`` has the label ``i``; shuffled anew in each epoch."""
    x = np.linspace(-1, 1, RECORDS * 4).reshape(RECORDS, 4).astype("float32")
    y = np.arange(RECORDS, dtype="float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(RECORDS).batch(BATCH)


class Labels(keras.metrics.Metric):
    """Which records were seen: each once gives 40 of them, and the sum of their squares."""

    def __init__(self) -> None:
        super().__init__(name="labels")
        self.count = self.add_weight(initializer="zeros", name="count")
        self.squares = self.add_weight(initializer="zeros", name="squares")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.count.assign_add(tf.cast(tf.size(y_true), tf.float32))
        self.squares.assign_add(tf.reduce_sum(tf.square(y_true)))

    def result(self) -> Any:
        return {"seen": self.count, "squares": self.squares}


def model(units: int = 2, optimizer: Any = None) -> keras.Model:
    keras.utils.set_random_seed(4)
    made = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(units), keras.layers.Dense(1)])
    # Eagerly: a few steps take less time than tracing one.
    made.compile(optimizer or keras.optimizers.Adam(0.01), "mse", metrics=[Labels()], run_eagerly=True)
    return made


def fit(folder: Path, callbacks: Callbacks, epochs: int = 3, stop: int | None = None, **how: Any) -> Any:
    """A new model and a new start of the script, in the job of ``folder``; the model and its history."""
    made = how.pop("model", None) or model()
    call = {"x": data(), "epochs": epochs, "verbose": 0, "callbacks": [*callbacks, Interruption(stop)]}
    call.update(how.pop("call", {}))
    with without_running_ahead():
        ended = fit_in(folder, made, call, **{"local": "1steps", "keep": "100", **how})
    return made, ended.history


def plain(callbacks: Callbacks, epochs: int = 3) -> Any:
    made = model()
    return made, made.fit(data(), epochs=epochs, verbose=0, callbacks=callbacks)


def newest(folder: Path) -> Path:
    return checkpoint.complete(jobs(folder)[0].checkpoints)[-1]


def said(folder: Path, name: str) -> list[str]:
    return [entry["text"] for entry in entries(folder) if entry["kind"] == "event" and entry["name"] == name]


def points(folder: Path, key: str) -> list[list[Any]]:
    found = [point for entry in entries(folder) if entry["kind"] == "points" for point in entry["points"]]
    return [point[1:3] for point in found if point[0] == key]


def r013(folder: Path) -> Any:
    """The loss gets worse after the interruption: the best file stays."""

    def worse(epoch: int, rate: float) -> float:
        return 0.01 if epoch < 2 else 50.0

    def callbacks(name: str) -> Callbacks:
        best = keras.callbacks.ModelCheckpoint(folder / f"{name}.weights.h5", "loss", save_best_only=True,
                                               save_weights_only=True)  # fmt: skip
        return [keras.callbacks.LearningRateScheduler(worse), best]

    reference = callbacks("plain")
    plain(reference, epochs=4)
    fit(folder, callbacks("ours"), epochs=4, stop=12)
    written = (folder / "ours.weights.h5").stat().st_mtime_ns
    again = callbacks("ours")
    fit(folder, again, epochs=4)
    return {
        "best": again[1].best == reference[1].best,
        "untouched": (folder / "ours.weights.h5").stat().st_mtime_ns == written,
    }


def r015(folder: Path) -> Any:
    def stop() -> keras.callbacks.EarlyStopping:
        return keras.callbacks.EarlyStopping("loss", patience=3, min_delta=1e9)

    _, undisturbed = plain([stop()], epochs=10)
    fit(folder, [stop()], epochs=10, stop=13)
    _, history = fit(folder, [stop()], epochs=10)
    return {"epochs": history.epoch, "plain": undisturbed.epoch}


class Fails(keras.callbacks.Callback):
    def __init__(self, mark: Path) -> None:
        super().__init__()
        self._mark = mark

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == 2 and not self._mark.exists():
            self._mark.touch()
            raise RuntimeError("in the middle of a fit")


def r017(folder: Path) -> Any:
    """A retry is the same training and keeps the best; a second fit is another one, as in plain Keras."""
    found = {}
    for name in ("plain", "ours"):
        stop = keras.callbacks.EarlyStopping("loss", patience=1, min_delta=1e9)
        made = model()
        lengths = []
        for number in (1, 2):
            call = {"x": data(), "epochs": 6, "verbose": 0, "callbacks": [stop]}
            if name == "plain":
                history = made.fit(**call)
            else:
                call["callbacks"] = [stop, Fails(folder / f"failed-{number}")]
                history = fit_in(folder / f"{number}", made, call, local="1steps").history
            lengths.append(len(history.epoch))
        found[name] = lengths
    return found


def r019(folder: Path) -> Any:
    fit(folder, [], stop=8)
    _, history = fit(folder, [])
    return {"epochs": history.epoch, "steps": [step for step, _ in points(folder, "loss")]}


class Begins(keras.callbacks.Callback):
    """What the first step after the resume finds."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, Any] = {}

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        if self.model.optimizer.built:
            slots = [np.abs(np.asarray(variable.value)).max() for variable in self.model.optimizer.variables[2:]]
            self._found = {
                "iterations": int(self.model.optimizer.iterations.numpy()),
                "slots": bool(all(value > 0 for value in slots)),
            }


def r021(folder: Path) -> Any:
    """Also R023 and R049: slots and step count are there before the first step."""
    fit(folder, [], stop=8)
    step = checkpoint.summary(newest(folder))[0].global_step
    watch = Begins()
    made, history = fit(folder, [watch])
    reference, undisturbed = plain([])
    return {
        "step": step,
        "found": watch._found,
        "equal": outcome(made, history) == outcome(reference, undisturbed),
    }


def one_before(checkpoint: Path) -> int:
    """The step of the next older one."""
    return sorted(int(path.name[5:]) for path in checkpoint.parent.glob("step-*"))[-2]


def r033(folder: Path) -> Any:
    fit(folder, [], stop=8)
    damaged = newest(folder)
    before = one_before(damaged)
    whole = damaged / "state.safetensors"
    os.truncate(whole, whole.stat().st_size // 2)
    made, history = fit(folder, [])
    reference, undisturbed = plain([])
    return {
        "equal": outcome(made, history) == outcome(reference, undisturbed),
        "said": said(folder, "checkpoint_unreadable"),
        "aside": [path.name for path in damaged.parent.glob("damaged-*")],
        "from": [entry["step"] for entry in entries(folder) if entry["kind"] == "attempt"][-1],
        "before": before,
        "damaged": damaged.name,
    }


def r035(folder: Path) -> Any:
    """What a process leaves that was killed in a write, and in the replacement of a step that was replayed."""
    fit(folder, [], stop=8)
    last = newest(folder)
    shutil.copytree(last, last.with_name(f".writing-step-{9:010d}-1"))
    (last.with_name(f".writing-step-{9:010d}-1") / "state.json").unlink()
    os.replace(last, last.with_name(f".replaced-{last.name}"))
    made, history = fit(folder, [])
    reference, undisturbed = plain([])
    left = [path.name for path in last.parent.iterdir() if path.name.startswith(".")]
    return {
        "equal": outcome(made, history) == outcome(reference, undisturbed),
        "from": [entry["step"] for entry in entries(folder) if entry["kind"] == "attempt"][-1],
        "last": int(last.name[5:]),
        "left": left,
    }


def r037(folder: Path) -> Any:
    """Epochs are a target: also when the job that had reached it is asked for more."""
    fit(folder, [], epochs=3, stop=8)
    _, first = fit(folder, [], epochs=3)
    _, more = fit(folder, [], epochs=4)
    return {"first": first.epoch, "more": more.epoch}


def r045(folder: Path) -> Any:
    """Also R043, R047 and R059: the same records in the same order, each once an epoch."""
    fit(folder, [], stop=8)
    _, history = fit(folder, [])
    undisturbed = folder / "undisturbed"
    _, reference = fit(undisturbed, [])
    curve = dict(map(tuple, points(folder, "batch/loss")))
    return {
        "losses": curve == dict(map(tuple, points(undisturbed, "batch/loss"))),
        "steps": sorted(curve),
        "seen": history.history["seen"],
        "squares": history.history["squares"],
        "reference": reference.history["squares"],
    }


def r051(folder: Path) -> Any:
    """Also R053: another model is refused before training, by the names of what differs."""
    fit(folder, [], stop=8)
    kept = checkpoint.complete(newest(folder).parent)
    try:
        fit(folder, [], model=model(units=3))
        refused = ""
    except UsageError as error:
        refused = str(error)
    return {"refused": refused, "kept": kept == checkpoint.complete(kept[0].parent)}


def r055(folder: Path) -> Any:
    """What is taken over from another job is shared, and tidying here leaves it there."""
    fit(folder / "earlier", [], stop=8)
    source = newest(folder / "earlier")
    before = sorted(path.name for path in source.parent.iterdir())
    fit(folder / "later", [], stop=1)
    target = jobs(folder / "later")[0].checkpoints
    shutil.rmtree(target)
    checkpoint.adopt(source, target)
    _, history = fit(folder / "later", [], keep="1")
    return {
        "kept": sorted(path.name for path in source.parent.iterdir()) == before,
        "readable": checkpoint.read(source).meta["position"]["global_step"],
        "tidy": [path.name for path in checkpoint.complete(target)],
        "epochs": history.epoch,
    }


def r065(folder: Path) -> Any:
    """Also R067: names, times and equal times mean nothing, the step does."""
    fit(folder, [], stop=12)
    found = checkpoint.complete(jobs(folder)[0].checkpoints)
    for number, path in enumerate(reversed(found)):
        os.utime(path, (1000 + number, 1000 + number))
    wide = found[0].with_name("step-10000000000")
    shutil.copytree(found[0], wide)
    order = [int(path.name[5:]) for path in checkpoint.complete(wide.parent)]
    shutil.rmtree(wide)
    fit(folder, [])
    starts = [entry["step"] for entry in entries(folder) if entry["kind"] == "attempt"]
    return {"order": order, "from": starts[-1], "newest": int(found[-1].name[5:])}


class Terminates(keras.callbacks.Callback):
    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        pass

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._at("validation")

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._at("first step")

    def _at(self, where: str) -> None:
        if where == self._where:
            self._where = ""
            os.kill(os.getpid(), signal.SIGTERM)


def r077(folder: Path) -> Any:
    """SIGTERM in the validation, and before the first step: saved, and the same in the end."""
    reference = model()
    undisturbed = reference.fit(data(), epochs=3, verbose=0, validation_data=data())
    found = {}
    for where in ("validation", "first step"):
        place = folder / where.replace(" ", "-")
        fit(place, [Terminates(where)], local="100epochs", call={"validation_data": data()})
        saved = [checkpoint.summary(path)[0].global_step for path in checkpoint.complete(jobs(place)[0].checkpoints)]
        made, history = fit(place, [Terminates("")], call={"validation_data": data()})
        found[where] = {"saved": saved, "equal": outcome(made, history) == outcome(reference, undisturbed)}
    return found


def csv_logger(folder: Path) -> Any:
    """No line of the user's CSV twice, none missing."""
    plain([keras.callbacks.CSVLogger(folder / "plain.csv")])
    fit(folder, [keras.callbacks.CSVLogger(folder / "ours.csv")], stop=12)
    fit(folder, [keras.callbacks.CSVLogger(folder / "ours.csv")])
    return {name: (folder / f"{name}.csv").read_text() for name in ("plain", "ours")}


class Unstorable(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.file = open(os.devnull)  # noqa: SIM115
        self.transform = str.upper


def callbacks_named(folder: Path) -> Any:
    fit(folder, [Unstorable(), keras.callbacks.BackupAndRestore(folder / "backup")], stop=8)
    fit(folder, [Unstorable()])
    changes = [entry["text"] for entry in entries(folder) if entry["kind"] == "semantic_change"]
    return {"named": said(folder, "callback_state"), "left_out": said(folder, "callback_left_out"), "changes": changes}


def restore_that_kills(folder: Path) -> Any:
    """The process ended twice while this checkpoint was in its hands: it is not tried again."""
    fit(folder, [], stop=8)
    last = newest(folder)
    before = one_before(last)
    (last.parent / "restores.json").write_text(f'{{"{last.name}": 2}}')
    fit(folder, [])
    starts = [entry["step"] for entry in entries(folder) if entry["kind"] == "attempt"]
    return {"said": said(folder, "checkpoint_unreadable"), "from": starts[-1], "before": before}


def elsewhere(folder: Path) -> Any:
    """Another machine, and a script that sets no seed: allowed, and said."""
    fit(folder, [], stop=8)
    last = newest(folder)
    marker = last / "state.json"
    marker.write_text(marker.read_text().replace('"op_determinism": false', '"op_determinism": true'))
    fit(folder, [])
    made = model()
    keras.utils.set_random_seed(5)
    fit(folder, [], epochs=4, model=made)
    return [entry["text"] for entry in entries(folder) if entry["kind"] == "semantic_change"]


def another_rate(folder: Path) -> Any:
    """A learning rate that the script changed holds, and is said."""
    fit(folder, [], stop=8)
    made, _ = fit(folder, [], model=model(optimizer=keras.optimizers.Adam(0.005)))
    changes = [entry["text"] for entry in entries(folder) if entry["kind"] == "semantic_change"]
    return {"rate": float(made.optimizer.learning_rate.numpy()), "changes": changes}


FAST: tuple[Callable[[Path], Any], ...] = (
    r015,
    r019,
    r021,
    r033,
    r035,
    r037,
    r051,
    callbacks_named,
    restore_that_kills,
)
SLOW: tuple[Callable[[Path], Any], ...] = (r013, r017, r045, r055, r065, r077, csv_logger, elsewhere, another_rate)


def tell(folder: Path, slow: bool) -> dict[str, Any]:
    """What each case saw; where one could not be tried, why not."""
    told = {}
    for case in (*FAST, *SLOW) if slow else FAST:
        place = folder / case.__name__
        place.mkdir()
        try:
            told[case.__name__] = case(place)
        except Exception:
            told[case.__name__] = traceback.format_exc()
    return told
