"""What happened, as serialisable facts: never a live exception."""

from __future__ import annotations

import dataclasses
import re
import signal as signals
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from mlflow_resilience.core import text
from mlflow_resilience.core.redaction import redact

_MESSAGE = 8_000  # characters kept of each
_TRACEBACK = 40_000
_CHAIN = 12  # links

#: The attribute of an exception that was made by hand to try recovery out.
SIMULATED = "_mlflow_resilience_simulated"

Phase = Literal[
    "start",  # imports, data and model being made
    "restore",
    "trace",  # the first step, which traces and compiles
    "data",  # waiting for the next batch
    "step",
    "callback",
    "validation",
    "epoch_end",
    "checkpoint",
    "tracking",
    "process",  # seen from outside: a worker that ended without a word
    "unknown",
]

#: How a link of the chain came to be known: raised ``from`` it, raised while it was handled, told within a message, or
#: noted in a log around the fault.
Relation = Literal["cause", "context", "text", "log"]


@dataclass(frozen=True, kw_only=True, order=True)
class Position:
    """How far training is: counts of what is *done*, all from 0.

    ``global_step`` counts optimiser steps over the whole job and orders positions.
    """

    global_step: int = 0
    epoch: int = 0
    step: int = 0  # steps done within ``epoch``


@dataclass(frozen=True)
class Cause:
    """One link of an exception's cause chain."""

    exception: str
    message: str
    relation: Relation = "cause"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An observed event.

    ``exception`` is the bare type name, or the signal's name for a death. ``type_names`` are the qualified names
    of its bases, most derived first. ``chain`` holds the causes, outermost first, including Python originals read
    out of TensorFlow's text. ``batch_size`` is that of the failed batch, in records.
    """

    exception: str
    message: str = ""
    type_names: tuple[str, ...] = ()
    chain: tuple[Cause, ...] = ()
    traceback: str = ""
    phase: Phase = "unknown"
    position: Position | None = None
    errno: int | None = None
    signal: int | None = None
    exit_code: int | None = None
    kernel_oom: bool = False  # the kernel's OOM killer counted a kill in our memory group
    silent_seconds: float | None = None  # set when nothing moved for so long: a hang
    output_tail: str = ""  # the last lines that a dead process wrote
    device: str = "unknown"
    jit: bool = False
    batch_size: int | None = None
    simulated: bool = False
    time: float = 0.0  # seconds since the epoch, UTC

    @property
    def global_step(self) -> int:
        """Optimiser steps done; 0 where that is not known."""
        return 0 if self.position is None else self.position.global_step

    @property
    def process_gone(self) -> bool:
        """Whether the process that faulted has ended, or is past use."""
        told = (self.signal, self.exit_code, self.silent_seconds)
        return self.phase == "process" or any(fact is not None for fact in told)

    @property
    def status(self) -> str | None:
        """The canonical status code of TensorFlow and gRPC, e.g. ``RESOURCE_EXHAUSTED``."""
        return text.status(self.exception, self.message)

    def says(self, words: re.Pattern[str]) -> bool:
        """Whether the exception's name or message holds one of these words."""
        return words.search(f"{self.exception}: {self.message}") is not None

    def is_a(self, *names: str) -> bool:
        """Whether the exception is of one of these classes, by bare or qualified name, bases included."""
        known = {self.exception, *self.type_names, *(name.rpartition(".")[2] for name in self.type_names)}
        return not known.isdisjoint(names)

    def redacted(self) -> Self:
        """Without secrets in any of its texts."""
        return dataclasses.replace(
            self,
            message=redact(self.message),
            chain=tuple(dataclasses.replace(cause, message=redact(cause.message)) for cause in self.chain),
            traceback=redact(self.traceback),
            output_tail=redact(self.output_tail),
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`; keys of a newer format are ignored."""
        known = {field.name for field in dataclasses.fields(cls)}
        facts = {key: value for key, value in data.items() if key in known}
        facts["type_names"] = tuple(facts.get("type_names", ()))
        facts["chain"] = tuple(Cause(**cause) for cause in facts.get("chain", ()))
        if facts.get("position") is not None:
            facts["position"] = Position(**facts["position"])
        return cls(**facts)


def signal_name(number: int) -> str:
    """A signal's name, such as ``SIGKILL``."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe(
    exception: BaseException, *, phase: Phase = "unknown", position: Position | None = None, **facts: Any
) -> Fault:
    """The fault that an exception is. ``facts`` are further fields of :class:`Fault` that the caller knows."""
    told = _told(exception)
    known: dict[str, Any] = {
        "type_names": tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(exception).__mro__[:-1]),
        "errno": _errno(exception, told),
        "simulated": bool(getattr(exception, SIMULATED, False)),
        "time": time.time(),
    }
    return Fault(
        exception=type(exception).__name__,
        message=_stored(told, _MESSAGE),
        chain=tuple(_chain(exception))[-_CHAIN:],
        traceback=_stored("".join(traceback.format_exception(exception)), _TRACEBACK),
        phase=phase,
        position=position,
        **{**known, **facts},
    )


def _chain(exception: BaseException) -> Iterator[Cause]:
    """Causes, outermost first; each followed by what its own text tells of."""
    for error, relation in _family(exception):
        told = _told(error)
        if relation is not None:
            yield Cause(type(error).__name__, _stored(told, _MESSAGE), relation)
        for name, message in reversed(text.originals(told)):
            yield Cause(name, _stored(message, _MESSAGE), "text")


def _family(exception: BaseException) -> Iterator[tuple[BaseException, Relation | None]]:
    """The exception and what led to it; of a group, its first."""
    seen: set[int] = set()
    found: BaseException | None = exception
    relation: Relation | None = None
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found, relation
        if isinstance(found, BaseExceptionGroup):
            found, relation = found.exceptions[0], "cause"
        elif found.__cause__ is not None:
            found, relation = found.__cause__, "cause"
        else:
            found, relation = (None if found.__suppress_context__ else found.__context__), "context"


def _told(exception: BaseException) -> str:
    try:
        return str(exception)
    except Exception:  # a broken __str__ of the user's must not hide the fault itself
        return "(its message could not be read)"


def _errno(exception: BaseException, told: str) -> int | None:
    number = getattr(exception, "errno", None)
    return number if isinstance(number, int) else text.errno(told)


def _stored(told: str, limit: int) -> str:
    return text.shorten(redact(told), limit)
