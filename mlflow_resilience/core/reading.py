"""A fault from pasted text: a bare message, a traceback, a notebook's output, a log with all that is around it."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Sequence
from itertools import takewhile

from mlflow_resilience.core.fault import Cause, Fault
from mlflow_resilience.core.logs import TRACEBACK, Line, lines_of
from mlflow_resilience.core.printed import (
    ASIDE,
    BARE,
    MESSAGE,
    Printed,
    headless,
    message_end,
    names_exception,
    printed,
)
from mlflow_resilience.core.text import errno, is_consequence, originals, shorten, words

#: How the lines of a body begin that a logged line goes on with.
_BODY = re.compile(r"[\s{}\[\]'\"]+\S|[{}\[\]'\"]")
_SHORT = 60  # lines that are read as one message rather than as a log
_NOTED = 40  # lines of a log
_FATAL = ("C", "F")
_NUMBER = re.compile(r"\d+")
_FEW = 10  # lines that a message without a name of an exception has at most
_SURVIVED = 20  # lines of progress after an exception: training went on

_EXIT = r"exit code\W{0,12}"
_DEATHS = {
    signals.SIGSEGV: words(rf"segmentation fault|\bsigsegv\b|signal:? 11\b|{_EXIT}(?:139|-11)\b"),
    signals.SIGABRT: words(rf"\baborted\b.*\bdumped|\bsigabrt\b|signal:? 6\b|{_EXIT}(?:134|-6)\b"),
    signals.SIGBUS: words(rf"bus error|\bsigbus\b|{_EXIT}(?:135|-7)\b"),
    signals.SIGILL: words(rf"illegal instruction\b.*\bdumped|\bsigill\b|{_EXIT}(?:132|-4)\b"),
    signals.SIGKILL: words(rf"^\W*killed\W*$|\bsigkill\b|signal:? 9\b|{_EXIT}(?:137|-9)\b|line \d+:? +\d+ killed\b"),
    signals.SIGTERM: words(rf"^\W*terminated\W*$|\bsigterm\b|signal:? 15\b|{_EXIT}(?:143|-15)\b"),
}
_DEATH = words(r"segm|sig|abort|bus e|illeg|kill|termi|exit")  # for speed: no line without one tells of a death


def read_fault(told: str) -> Fault:
    """The fault that the text tells of: of several, the earliest that training did not survive."""
    return _read(lines_of(told))


def _read(lines: Sequence[Line]) -> Fault:
    raised = list(printed(lines))
    if not any(each.name for each in raised):
        raised = headless(lines) or raised
    rest = _without(raised, lines) if all(each.aside for each in raised) else []
    if raised and any(line.is_notable or _is_named(line.text) for line in rest):
        return _read(rest)
    if raised and _died_later(lines[raised[-1].end :]):
        return _from_log(lines)
    if raised:
        return _from_exception(_root(raised, lines), raised, lines)
    if len(lines) <= _SHORT and sum(line.is_log for line in lines) < 2:
        return _from_message("\n".join(line.text for line in lines).strip())
    return _from_log(lines)


def _without(raised: Sequence[Printed], lines: Sequence[Line]) -> list[Line]:
    """The lines before, between and after the tracebacks, and without their headings."""
    told = {at for each in raised for at in range(each.start, each.end)}
    return [line for at, line in enumerate(lines) if at not in told and not ASIDE.match(line.text)]


def tells_of_fault(told: str) -> bool:
    """Whether there is anything in the text that could be an error: a traceback, an exception's name, a death, or words
    of failure."""
    lines = lines_of(told)
    return any(
        TRACEBACK in line.text or "[[" in line.text or line.is_notable or line.level in _FATAL or _is_named(line.text)
        for line in lines
    )


def is_log(told: str) -> bool:
    """Whether this is output of a program rather than a message: progress, logged lines, or many lines."""
    lines = [line for line in lines_of(told) if line.text.strip()]
    return len(lines) > _FEW or sum(line.is_log for line in lines) > 1 or any(line.is_progress for line in lines)


def _is_named(text: str) -> bool:
    return _signal(text) is not None or names_exception(text)


def _from_exception(raised: Printed, others: Sequence[Printed], lines: Sequence[Line]) -> Fault:
    near = {*range(raised.start - 200, raised.start), *range(raised.end, raised.end + 200)}
    near.difference_update(at for each in others if each.aside for at in range(each.start, each.end))
    seen = (line for at, line in enumerate(lines) if at in near)
    around = [line for line in seen if line.is_notable and not line.is_passing]
    return Fault(
        exception=raised.name.rpartition(".")[2],
        message=raised.message,
        type_names=(raised.name,) if "." in raised.name else (),
        chain=(*_noted(around), *raised.causes, *_nested(raised.message)),
        traceback="\n".join(line.text for line in lines[raised.start : raised.end]),
        errno=errno(raised.message),
    )


def _from_message(told: str) -> Fault:
    first, _, rest = told.partition("\n")
    found = BARE.match(first)
    name = found["name"] if found else ""
    message = shorten(f"{found['message']}\n{rest}".strip() if found else told, MESSAGE)
    return Fault(
        exception=name.rpartition(".")[2],
        message=message,
        type_names=(name,) if "." in name else (),
        chain=_nested(message),
        errno=errno(message),
        signal=None if found else _signal(told),
    )


def _from_log(lines: Sequence[Line]) -> Fault:
    """Of a log without a traceback the earliest line that tells of a fault, after the last sign of progress if any
    does."""
    survived = _last_progress(lines)
    notable = [line for line in lines[survived + 1 :] if line.is_notable] or [line for line in lines if line.is_notable]
    deaths = [line for line in notable if _signal(line.text) is not None]
    passing = [line for line in notable if line.is_passing]
    told = [line for line in notable if line not in deaths and line not in passing]
    first = next(iter((*told, *deaths, *passing)), Line(""))
    fault = _from_message(_with_the_rest(first, lines))
    noted = [line for line in (*told, *deaths) if line is not first]
    return Fault(
        exception=fault.exception,
        message=fault.message,
        type_names=fault.type_names,
        chain=(*_noted(noted), *fault.chain),
        errno=fault.errno,
        signal=fault.signal,
    )


def _with_the_rest(line: Line, lines: Sequence[Line]) -> str:
    """The line with the further ones of its message: an exception's, a body, what a C++ exception says of itself."""
    at = next((number for number, each in enumerate(lines) if each is line), len(lines))
    if names_exception(line.text):
        further = lines[at + 1 : message_end(lines, at)]
    else:
        further = list(takewhile(lambda each: _BODY.match(each.text) and not each.is_log, lines[at + 1 : at + _NOTED]))
    return "\n".join([line.text, *(each.text for each in further)]).strip()


def _noted(lines: Sequence[Line]) -> tuple[Cause, ...]:
    """Lines beside the fault, latest first; of those that differ in numbers alone the first."""
    kinds: dict[str, str] = {}
    for line in lines:
        kinds.setdefault(_NUMBER.sub("0", line.text), line.text)
    return tuple(Cause("", told, "log") for told in reversed(list(kinds.values())[:_NOTED]))


def _nested(message: str) -> tuple[Cause, ...]:
    return tuple(Cause(name, told, "text") for name, told in reversed(originals(message)))


def _signal(told: str) -> int | None:
    if not _DEATH.search(told):
        return None
    return next((number for number, pattern in _DEATHS.items() if pattern.search(told)), None)


def _root(raised: Sequence[Printed], lines: Sequence[Line]) -> Printed:
    """The earliest after which training did not go on; consequences, and what the interpreter printed while it
    cleaned up, count where there is nothing else."""
    cleanly = [each for each in raised if not each.aside] or list(raised)
    proper = [each for each in cleanly if not is_consequence(each.name, each.message)] or cleanly
    survived = _last_progress(lines[: proper[-1].start])
    return next(each for each in proper if each.start > survived)


def _died_later(lines: Sequence[Line]) -> bool:
    """Whether training went on for long after what was raised, and ended of something else without a traceback."""
    last = _last_progress(lines)
    return sum(line.is_progress for line in lines) >= _SURVIVED and any(
        line.level in _FATAL or _signal(line.text) is not None for line in lines[last + 1 :]
    )


def _last_progress(lines: Sequence[Line]) -> int:
    return next((i for i in range(len(lines) - 1, -1, -1) if lines[i].is_progress), -1)
