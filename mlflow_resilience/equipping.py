"""What a job's parameters add to its recipe: device settings before it, remedies on its model, and a line of each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlflow_resilience.device.settings import DeviceSettings, Told
from mlflow_resilience.job import Job
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.remedies.wanted import Treated
from mlflow_resilience.spool.journal import read

if TYPE_CHECKING:
    import keras

REMEDY, SETTING, NOT_SET = "remedy", "device_setting", "device_warning"


class Notes:
    """Lines in the journal, each once in a job: its later processes do the same again."""

    def __init__(self, job: Job) -> None:
        self._journal = job.journal
        self._told: set[tuple[str, str]] = set()
        job.journal.flush()
        for entry, _ in read(job.folder.journal):
            if entry.get("kind") == "event":
                self._told.add((str(entry.get("name")), str(entry.get("text"))))

    def remedies(self, lines: list[str]) -> None:
        """What was done to the model."""
        for line in lines:
            self._tell(REMEDY, line)

    def device(self, told: list[Told]) -> None:
        """What of the device's settings is in force, and what is not."""
        for each in told:
            self._tell(SETTING if each.done else NOT_SET, each.text)

    def _tell(self, name: str, text: str) -> None:
        if (name, text) not in self._told:
            self._told.add((name, text))
            self._journal.append("event", name=name, attempt=0, step=0, text=text, data={})


def set_device(
    parameters: Parameters, notes: Notes | None = None, *, grow: bool = False
) -> Callable[[], AbstractContextManager[Any]]:
    """Before TensorFlow computes anything; gives the scope that the model is to be made in. ``grow``: recovery has
    decided that the GPU's memory is taken as needed."""
    import tensorflow as tf

    from mlflow_resilience.device import applying, spreading

    asked = parameters.on_device()
    if grow and asked.memory_limit is None and tf.config.list_physical_devices("GPU"):
        asked = replace(asked, memory_growth=True)
    told = applying.apply(asked) if asked != DeviceSettings() else []
    spread, more = spreading.strategy(parameters.devices) if parameters.devices != "1" else (None, [])
    if notes is not None:
        notes.device([*told, *more])
    return nullcontext if spread is None else spread.scope


def treat(model: keras.Model, call: dict[str, Any], parameters: Parameters, notes: Notes | None = None) -> Treated:
    """The recipe's model with its remedies. ``call`` is what `fit` is called with. Raises UsageError where model or
    data does not allow one."""
    from mlflow_resilience.device import applying
    from mlflow_resilience.diagnostics import callback_from
    from mlflow_resilience.training.call import batches_of

    asked, device = parameters.remedies(), parameters.on_device()
    treated = asked.put_to(
        model,
        steps_per_epoch=batches_of(call),
        epochs=parameters.epochs,
        validated=call.get("validation_data") is not None,
    )
    treated.identity |= device.identity()
    if (watching := callback_from(parameters.diagnostics)) is not None:
        treated.callbacks.append(watching)
    told = applying.suit(treated.model, device)
    if notes is not None:
        notes.remedies(treated.lines)
        notes.device(told)
    return treated


def again(model: keras.Model, data: Any, parameters: Parameters) -> keras.Model:
    """The recipe's model as :func:`treat` leaves it, to look at; ``data`` is the recipe's training data."""
    call = {"x": data[0] if isinstance(data, tuple) else data, "batch_size": parameters.batch_size}
    return treat(model, {**call, "validation_data": ()}, parameters).model if data is not None else model
