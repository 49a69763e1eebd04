"""The parameters of the main job: the same for MLproject, the command line and the worker, checked in one place."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from mlflow_resilience import fault_plan
from mlflow_resilience.compression.wanted import Wanted
from mlflow_resilience.core import addressee, bytesize
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.core.schedule import Retention, Schedule
from mlflow_resilience.device.settings import DeviceSettings
from mlflow_resilience.errors import UsageError
from mlflow_resilience.remedies.wanted import READERS as REMEDIES
from mlflow_resilience.remedies.wanted import Remedies

#: What a model and its training step are made from, besides the recipe itself.
SHAPING = ("batch_size", "learning_rate", "seed", "epochs", *REMEDIES, "precision", "device")

_AUTO = object()  # what the other parameters decide


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a job is started with. ``checkpoint_every``, ``keep``, ``fault``, remedies and device settings stay as
    written. ``notify`` is a command or a URL; as it may hold a secret, it is in no dictionary and so in no journal."""

    recipe: str = "mlflow_resilience.recipes.digits"
    epochs: int = 10
    batch_size: int = 32
    learning_rate: float = 0.002
    seed: int = 0
    resume: str = "auto"
    recover: bool = True
    max_attempts: int = 10
    checkpoint_every: str = "auto"
    keep: str = "3"
    fault: str = "none"
    notify: str = "none"
    replay: str = "none"
    max_lost_time: float | None = None
    policy: str = "default"
    warm_spare: bool = False
    schedule: str = "none"
    plateau: str = "none"
    early_stopping: str = "none"
    clip: str = "none"
    regularise: str = "none"
    augment: str = "none"
    precision: str = "none"
    device: str = "none"
    devices: str = "1"
    diagnostics: str = "off"
    compress: str = "none"
    engine: str = "local"
    num_workers: int = 1

    @classmethod
    def from_text(cls, given: Mapping[str, str]) -> Self:
        """From texts, as a command line has them; UsageError names the parameter and what it needs."""
        unknown = set(given) - set(_READERS)
        if unknown:
            raise UsageError(f"unknown parameter {', '.join(sorted(unknown))}; known are {', '.join(_READERS)}")
        values = {name: value for name, text in given.items() if (value := _read(name, text)) is not _AUTO}
        if values.get("policy") == "patient":
            values.setdefault("max_attempts", Policy.patient().max_attempts)
        made = cls(**values)
        made.remedies()  # some exclude each other
        made._check_engine()
        made._check_devices()
        return made

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; keys of a newer format are ignored."""
        return cls(**{field.name: data[field.name] for field in dataclasses.fields(cls) if field.name in data})

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, but for ``notify``."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "notify"}

    def _check_engine(self) -> None:
        if self.engine == "local" and self.num_workers > 1:
            raise UsageError(f"num_workers={self.num_workers} needs engine=ray")
        if self.engine == "ray" and self.batch_size < self.num_workers:
            raise UsageError(f"batch_size={self.batch_size} is that of all num_workers={self.num_workers} together")
        if self.engine == "ray" and self.warm_spare:
            raise UsageError("warm_spare=true: engine=ray has no spare; leave one of them out")
        if self.engine == "ray" and self.devices != "1":
            raise UsageError(f"devices={self.devices}: with engine=ray each worker has one; leave one of them out")
        if self.engine == "ray" and self.compress != "none":
            raise UsageError(f"compress={self.compress}: engine=ray trains only; leave one of them out")

    def _check_devices(self) -> None:
        if self.devices not in ("auto", "1") and self.batch_size < int(self.devices):
            raise UsageError(f"batch_size={self.batch_size} is that of all devices={self.devices} together")

    def rules(self) -> Policy:
        """What recovery may do."""
        return Policy.named(
            self.policy,
            recover=self.recover,
            max_attempts=self.max_attempts,
            max_lost_time=self.max_lost_time,
            notify=None if self.notify == "none" else self.notify,
        )

    def remedies(self) -> Remedies:
        """What is done to the recipe's model besides."""
        return Remedies.from_texts({name: getattr(self, name) for name in REMEDIES})

    @property
    def is_treated(self) -> bool:
        """Whether any remedy is asked for."""
        return self.remedies() != Remedies()

    def on_device(self) -> DeviceSettings:
        """What is asked for of the device."""
        return DeviceSettings.parse(self.device, self.precision)

    def smaller(self) -> Wanted:
        """What is made of the trained model."""
        return Wanted.parse(self.compress)

    def for_recipe(self) -> dict[str, Any]:
        """What the functions of a recipe are called with."""
        return {name: getattr(self, name) for name in ("epochs", "batch_size", "learning_rate", "seed")}


def _read(name: str, text: str) -> Any:
    reader, needed = _READERS[name]
    try:
        return reader(text.strip())
    except UsageError as error:
        told = str(error)
        named = told.startswith((f"{name}=", f"{name}:"))  # a secret is not repeated
        raise UsageError(told if named else f"{name}={text}: {told}") from None
    except ValueError:
        raise UsageError(f"{name}={text}: {needed} is needed") from None


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError(text)
        return value

    return read


def _attempts(text: str) -> Any:
    return _AUTO if text == "auto" else _at_least(1)(text)


def _positive(text: str) -> float:
    value = float(text)
    if not (0 < value < math.inf):
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _resume(text: str) -> str:
    if not re.fullmatch(r"[\w-]+", text):
        raise ValueError(text)
    return text


def _schedule(text: str) -> str:
    Schedule.parse(text)
    return text


def _retention(text: str) -> str:
    Retention.parse(text)
    return text


def _faults(text: str) -> str:
    return ",".join(map(str, fault_plan.parse(text))) or "none"


def _notify(text: str) -> str:
    if text != "none":
        addressee.check(text)
    return text


def _policy(text: str) -> str:
    Policy.named(text)
    return text


def _seconds(text: str) -> float | None:
    return None if text == "none" else _positive(text)


def _size(text: str) -> str:
    bytesize.parse(text)
    return text


def _remedy(name: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        REMEDIES[name](text)
        return text

    return read


def _precision(text: str) -> str:
    DeviceSettings.parse("none", text)
    return text


def _device(text: str) -> str:
    DeviceSettings.parse(text)
    return text


def _devices(text: str) -> str:
    return text if text == "auto" else str(_at_least(1)(text))


def _diagnostics(text: str) -> str:
    return "off" if text in ("off", "none") else str(_at_least(1)(text))


def _engine(text: str) -> str:
    if text not in ("local", "ray"):
        raise ValueError(text)
    return text


def _compress(text: str) -> str:
    Wanted.parse(text)
    return text


def _name(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "recipe": (_name, "a Python file or a module"),
    "epochs": (_at_least(1), "a whole number, 1 or more,"),
    "batch_size": (_at_least(1), "a whole number, 1 or more,"),
    "learning_rate": (_positive, "a number above 0"),
    "seed": (_at_least(0), "a whole number, 0 or more,"),
    "resume": (_resume, "auto, never or the id of a run"),
    "recover": (_boolean, "true or false"),
    "max_attempts": (_attempts, "auto, or a whole number, 1 or more,"),
    "checkpoint_every": (_schedule, "auto, or e.g. 50steps, 1epoch or 30s,"),
    "keep": (_retention, "a number, or e.g. last=3,best=1,every=10,"),
    "fault": (_faults, "KIND@STEP[xTIMES][,...]"),
    "policy": (_policy, "default, strict or patient"),
    "max_lost_time": (_seconds, "none, or seconds,"),
    "warm_spare": (_boolean, "true or false"),
    "replay": (_size, "none, or e.g. 64MB,"),
    "notify": (_notify, "none, a command or a URL"),
    **{name: (_remedy(name), "none, or what the reference says of it,") for name in REMEDIES},
    "precision": (_precision, "none, mixed_bfloat16 or mixed_float16"),
    "device": (_device, "none, or e.g. memory_growth,threads:4,"),
    "devices": (_devices, "auto, or a whole number, 1 or more,"),
    "diagnostics": (_diagnostics, "off, or a number of steps, 1 or more,"),
    "compress": (_compress, "none, or e.g. prune:0.5,int8,"),
    "engine": (_engine, "local or ray"),
    "num_workers": (_at_least(1), "a whole number, 1 or more,"),
}
