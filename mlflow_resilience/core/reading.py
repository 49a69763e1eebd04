"""A fault from pasted text: a bare message, a traceback, a notebook's output, a log with all that is around it."""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mlflow_resilience.core.fault import Cause, Fault, Relation
from mlflow_resilience.core.logs import TRACEBACK, Line, lines_of
from mlflow_resilience.core.text import NAME, errno, is_consequence, originals, words

_CHAINED = re.compile(r"^(?:During handling of the above|The above exception was the direct (?P<cause>cause))")
_ASIDE = re.compile(r"^(?:Exception ignored in|Error in (?:atexit|sys\.))")
_RAISED = re.compile(r"^(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(?P<message>.*))?$")
_BARE = re.compile(rf"^(?P<name>{NAME}|(?:\w+\.)*[A-Z][a-z]+(?:[A-Z]\w*)+|(?:[a-z_]\w*\.)+\w+): (?P<message>.*)$")
#: How the further lines of TensorFlow's messages begin.
_GOES_ON = re.compile(
    r"^(?:\s|$|Detected at|Node: |\(\d+\)|\d+ (?:root|successful|derived)|Hint: |\[\[|Errors may|Original stack|"
    r"Function call|Stack trace|\[Op:|<stack|[A-Z_]{6,}: )"
)
_GRAPH = "Graph execution error"
_LONGEST = 400  # lines of one message
_SHORT = 60  # lines that are read as one message rather than as a log
_NOTED = 40  # lines of a log
_FATAL = ("C", "F")
_FEW = 10  # lines that a message without a name of an exception has at most

_DEATHS = {
    signals.SIGSEGV: words(r"segmentation fault|\bsigsegv\b|signal:? 11\b|exit code:? (?:139|-11)\b"),
    signals.SIGABRT: words(r"\baborted\b.*\bdumped|\bsigabrt\b|signal:? 6\b|exit code:? (?:134|-6)\b"),
    signals.SIGBUS: words(r"bus error|\bsigbus\b|exit code:? (?:135|-7)\b"),
    signals.SIGILL: words(r"illegal instruction\b.*\bdumped|\bsigill\b|exit code:? (?:132|-4)\b"),
    signals.SIGKILL: words(
        r"^\W*killed\W*$|\bsigkill\b|signal:? 9\b|exit code:? (?:137|-9)\b|line \d+:? +\d+ killed\b"
    ),
    signals.SIGTERM: words(r"^\W*terminated\W*$|\bsigterm\b|signal:? 15\b|exit code:? (?:143|-15)\b"),
}


@dataclass
class _Raised:
    """An exception as printed, with those it was raised from."""

    name: str
    message: str
    start: int  # lines of the text
    end: int
    aside: bool = False  # printed while the interpreter cleaned up
    causes: list[Cause] = field(default_factory=list)  # outermost first


def read_fault(told: str) -> Fault:
    """The fault that the text tells of: of several, the earliest that training did not survive."""
    lines = lines_of(told)
    raised = list(_raised(lines))
    if raised:
        return _from_exception(_root(raised, lines), lines)
    if len(lines) <= _SHORT and sum(line.is_log for line in lines) < 2:
        return _from_message("\n".join(line.text for line in lines).strip())
    return _from_log(lines)


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
    named = _BARE.match(text)
    return _signal(text) is not None or (named is not None and re.fullmatch(NAME, named["name"]) is not None)


def _from_exception(raised: _Raised, lines: Sequence[Line]) -> Fault:
    near = (*lines[max(0, raised.start - 200) : raised.start], *lines[raised.end : raised.end + 200])
    around = [line for line in near if line.is_notable]
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
    found = _BARE.match(first)
    name = found["name"] if found else ""
    message = f"{found['message']}\n{rest}".strip() if found else told
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
    first = next((line for line in notable if line not in deaths), None) or next(iter(deaths), Line(""))
    fault = _from_message(first.text)
    noted = [line for line in notable if line is not first]
    return Fault(
        exception=fault.exception,
        message=fault.message,
        type_names=fault.type_names,
        chain=(*_noted(noted), *fault.chain),
        errno=fault.errno,
        signal=fault.signal,
    )


def _noted(lines: Sequence[Line]) -> tuple[Cause, ...]:
    """Lines beside the fault, latest first."""
    return tuple(Cause("", line.text, "log") for line in reversed(lines[:_NOTED]))


def _nested(message: str) -> tuple[Cause, ...]:
    return tuple(Cause(name, told, "text") for name, told in reversed(originals(message)))


def _signal(told: str) -> int | None:
    return next((number for number, pattern in _DEATHS.items() if pattern.search(told)), None)


def _root(raised: Sequence[_Raised], lines: Sequence[Line]) -> _Raised:
    """The earliest after which training did not go on; consequences, and what the interpreter printed while it
    cleaned up, count where there is nothing else."""
    cleanly = [each for each in raised if not each.aside] or list(raised)
    proper = [each for each in cleanly if not is_consequence(each.name, each.message)] or cleanly
    survived = _last_progress(lines[: proper[-1].start])
    return next(each for each in proper if each.start > survived)


def _last_progress(lines: Sequence[Line]) -> int:
    return next((i for i in range(len(lines) - 1, -1, -1) if lines[i].is_progress), -1)


def _raised(lines: Sequence[Line]) -> Iterator[_Raised]:
    """Every chain of exceptions printed with its traceback, in order."""
    found: _Raised | None = None
    relation: Relation | None = None
    at = 0
    while at < len(lines):
        if TRACEBACK in lines[at].text:
            new = _one(lines, at)
            at = new.end
            if found is not None and relation is not None:
                new.causes = [Cause(found.name.rpartition(".")[2], found.message, relation), *found.causes]
                new.start = found.start
            elif found is not None:
                yield found
            found, relation = new, None
            continue
        if match := _CHAINED.match(lines[at].text):
            relation = "cause" if match["cause"] else "context"
        at += 1
    if found is not None:
        yield found


def _one(lines: Sequence[Line], start: int) -> _Raised:
    """The exception whose traceback begins at ``start``."""
    aside = any(_ASIDE.match(line.text) for line in lines[max(0, start - 3) : start])
    before = lines[start].text.split(TRACEBACK)[0].strip()
    headed = before if re.fullmatch(NAME, before) else ""  # a notebook names the exception here already
    at = start + 1
    while at < len(lines) and not _ends_frames(lines[at].text, headed):
        at += 1
    match = _RAISED.match(lines[at].text) if at < len(lines) else None
    if match is None:
        return _Raised(headed, "", start, min(at, len(lines)), aside)
    end = _message_end(lines, at)
    message = "\n".join([match["message"] or "", *(line.text for line in lines[at + 1 : end])])
    return _Raised(match["name"], message.strip(), start, end, aside)


def _ends_frames(text: str, headed: str) -> bool:
    match = _RAISED.match(text)
    if headed:
        return match is not None and match["name"].rpartition(".")[2] == headed.rpartition(".")[2]
    return match is not None or TRACEBACK in text


def _message_end(lines: Sequence[Line], at: int) -> int:
    """Where the message that begins at line ``at`` ends."""
    graph = _GRAPH in lines[at].text
    end = at + 1
    while end < min(len(lines), at + _LONGEST):
        line = lines[end]
        if TRACEBACK in line.text or _CHAINED.match(line.text) or _ASIDE.match(line.text) or line.is_progress:
            break
        if not graph and not _GOES_ON.match(line.text) and (line.is_log or not lines[end - 1].text.strip()):
            break
        graph = graph and "[[" not in line.text
        end += 1
    return end
