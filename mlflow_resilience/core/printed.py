"""Exceptions as they are printed: where each begins and ends in a text, what it says, what it was raised from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mlflow_resilience.core.fault import Cause, Relation
from mlflow_resilience.core.logs import TRACEBACK, Line
from mlflow_resilience.core.text import NAME, shorten

_CHAINED = re.compile(r"^(?:During handling of the above|The above exception was the direct (?P<cause>cause))")
ASIDE = re.compile(r"^(?:Exception ignored in|Error in (?:atexit|sys\.))")
_RAISED = re.compile(r"^(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(?P<message>.*))?$")
BARE = re.compile(rf"^(?P<name>{NAME}|(?:\w+\.)*[A-Z][a-z]+(?:[A-Z]\w*)+|(?:[a-z_]\w*\.)+\w+): (?P<message>.*)$")
#: How the further lines of TensorFlow's messages begin.
_GOES_ON = re.compile(
    r"^(?:\s|$|Detected at|Node: |\(\d+\)|\d+ (?:root|successful|derived)|Hint: |\[\[|Errors may|Original stack|"
    r"Function call|Stack trace|\[Op:|<stack|[A-Z_]{6,}: )"
)
#: What a frame of a traceback ends with: its source, marks below it, a box around it.
_FRAME = re.compile(r"^(?:\s+\S|[│╰]|---->)")
#: What a shell says of the end of a process.
_SHELL = re.compile(r"^(?:Segmentation fault|Killed|Aborted|Terminated|Bus error|Illegal instruction)\b")
_GRAPH = "Graph execution error"
_LONGEST = 400  # lines of one message
MESSAGE = 8_000  # characters of one, as of a live exception's


@dataclass
class Printed:
    """An exception as printed, with those it was raised from."""

    name: str
    message: str
    start: int  # lines of the text
    end: int
    aside: bool = False  # printed while the interpreter cleaned up
    causes: list[Cause] = field(default_factory=list)  # outermost first


def names_exception(text: str) -> bool:
    """Whether a line begins with the name of an exception that is no warning."""
    found = BARE.match(text)
    name = found["name"] if found else text
    return re.fullmatch(NAME, name) is not None and not name.endswith("Warning")


def printed(lines: Sequence[Line]) -> Iterator[Printed]:
    """Every chain of exceptions printed with its traceback, in order."""
    found: Printed | None = None
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


def headless(lines: Sequence[Line]) -> list[Printed]:
    """The exception below frames whose heading is cut off."""
    if names_exception(lines[0].text):
        return []
    found = (at for at in range(1, len(lines)) if _FRAME.match(lines[at - 1].text) and names_exception(lines[at].text))
    return [_at(lines, at) for at in found][:1]


def _at(lines: Sequence[Line], at: int) -> Printed:
    name, _, message = lines[at].text.partition(":")
    end = message_end(lines, at)
    told = "\n".join([message, *(line.text for line in lines[at + 1 : end])])
    return Printed(name, shorten(told.strip(), MESSAGE), at, end)


def _one(lines: Sequence[Line], start: int) -> Printed:
    """The exception whose traceback begins at ``start``."""
    aside = any(ASIDE.match(line.text) for line in lines[max(0, start - 3) : start])
    before = lines[start].text.split(TRACEBACK)[0].strip()
    headed = before if re.fullmatch(NAME, before) else ""  # a notebook names the exception here already
    at = start + 1
    while at < len(lines) and not _ends_frames(lines[at].text, headed):
        at += 1
    match = _RAISED.match(lines[at].text) if at < len(lines) else None
    if match is None:
        return Printed(headed, "", start, min(at, len(lines)), aside)
    end = message_end(lines, at)
    message = "\n".join([match["message"] or "", *(line.text for line in lines[at + 1 : end])])
    return Printed(match["name"], shorten(message.strip(), MESSAGE), start, end, aside)


def _ends_frames(text: str, headed: str) -> bool:
    match = _RAISED.match(text)
    if headed:
        return match is not None and match["name"].rpartition(".")[2] == headed.rpartition(".")[2]
    return match is not None or TRACEBACK in text


def _is_over(told: Sequence[Line]) -> bool:
    """Whether a message ends with a blank line, and with nothing that announces more."""
    said = [line.text.strip() for line in told]
    return not said[-1] and not next((text for text in reversed(said) if text), "").endswith(":")


def message_end(lines: Sequence[Line], at: int) -> int:
    """Where the message that begins at line ``at`` ends."""
    graph = _GRAPH in lines[at].text
    end = at + 1
    while end < min(len(lines), at + _LONGEST):
        line = lines[end]
        if TRACEBACK in line.text or _CHAINED.match(line.text) or ASIDE.match(line.text) or line.is_progress:
            break
        if _SHELL.match(line.text) or (line.is_log and not lines[at].is_log):
            break
        if not graph and not _GOES_ON.match(line.text) and (line.is_log or _is_over(lines[at:end])):
            break
        graph = graph and "[[" not in line.text
        end += 1
    return end
