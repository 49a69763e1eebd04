"""What the text of an error says beside its sentence: status, errno, root errors, Python originals."""

from __future__ import annotations

import errno as errnos
import os
import re

#: The name of an exception class, qualified or not, as Python prints it.
NAME = (
    r"(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*"
    r"(?:Error|Exception|Interrupt|Warning|Exit|Failure|Iteration|Exhausted|Diverged|Timeout)"
)

_ORIGINAL = re.compile(rf"(?:^|[:\s])(?P<name>{NAME})(?::[ \t]*(?P<message>[^\n]*))?$", re.MULTILINE)
_ROOT = re.compile(r"^\s*\(\d+\)[ \t]+", re.MULTILINE)
_NODE = re.compile(r"\[\[(?!-?(?:nan|inf|\d)).*?\]\]|\[Op:\w+\]")  # no matrix
_STACK_LINE = re.compile(r'^\s*File "[^"]*", line \d+')
_NOISE_LINE = re.compile(
    r"^\s*(?:Graph execution error|Detected at node|Node: |Stack trace for op|<stack traces|Hint: |"
    r"[~^]+\s*$|\d+ successful operations|\d+ derived errors|\d+ root error|Traceback \(most recent)"
)
_REST_IS_STACK = re.compile(r"^\s*(?:Original stack trace for|Errors may have originated|Function call stack)")

_CODES = (
    *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED"),
    *("OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
)
_PREFIX = re.compile(rf"(?:^|[\s:.(])({'|'.join(_CODES).replace('_', '[ _]')}):", re.IGNORECASE)
_HTTP_NOT_FOUND = re.compile(r"\bresponse code:? 404\b", re.IGNORECASE)
_GRPC = re.compile(rf"StatusCode\.({'|'.join(_CODES)})\b")

_ERRNO = re.compile(r"\berrno\]?\s*[:=]?\s*(\d{1,3})\b|\bos error (\d{1,3})\b", re.IGNORECASE)
_TOLD_BY_NAME = {
    os.strerror(number).lower(): number
    for number in (
        *(errnos.ENOENT, errnos.EIO, errnos.EBADF, errnos.EAGAIN, errnos.ENOMEM, errnos.EACCES, errnos.EBUSY),
        *(errnos.ENOTDIR, errnos.EISDIR, errnos.ENFILE, errnos.EMFILE, errnos.EFBIG, errnos.ENOSPC, errnos.EDQUOT),
        *(errnos.EINTR, errnos.EROFS, errnos.EPIPE, errnos.ESTALE, errnos.EREMOTEIO, errnos.ENODEV, errnos.ETIMEDOUT),
        *(errnos.ECONNREFUSED, errnos.ECONNRESET, errnos.ECONNABORTED, errnos.ENOTCONN, errnos.ESHUTDOWN),
        *(errnos.EHOSTUNREACH, errnos.EHOSTDOWN, errnos.ENETUNREACH, errnos.ENETDOWN, errnos.ENETRESET),
    )
}
_STRERROR = re.compile("|".join(map(re.escape, _TOLD_BY_NAME)), re.IGNORECASE)


#: What breaks because something else broke.
_CONSEQUENCE = re.compile(
    r"cancell?ed|socket closed|coordinator|collective|(?<!_)incarnation|context_id|queue\b.*\bclosed|broken pipe"
    r"|atexit",
    re.IGNORECASE,
)


def is_consequence(exception: str, message: str) -> bool:
    """Whether this is rather what another error led to."""
    return status(exception, message) == "CANCELLED" or _CONSEQUENCE.search(message) is not None


def words(*patterns: str) -> re.Pattern[str]:
    """One pattern out of several, whatever the case of their letters."""
    return re.compile("|".join(patterns), re.IGNORECASE)


def clean(message: str) -> str:
    """The message without stacks, node names and hints that TensorFlow wraps around it."""
    kept: list[str] = []
    in_stack = False
    for line in message.splitlines():
        if _REST_IS_STACK.match(line):
            break
        if _STACK_LINE.match(line):
            in_stack = True
        elif in_stack and line[:1].isspace():
            in_stack = not line.strip()  # the quoted line of source
        elif not _NOISE_LINE.match(line):
            in_stack = False
            kept.append(_NODE.sub("", line).strip())
    return "\n".join(line for line in kept if line)


def roots(message: str) -> list[str]:
    """The root errors that TensorFlow numbers in one message, each cleaned."""
    return [clean(part) for part in _ROOT.split(message)[1:]]


def originals(message: str) -> list[tuple[str, str]]:
    """Python exceptions told of within a message, as (name, message), in order, each once."""
    found = ((match["name"], (match["message"] or "").strip()) for match in _ORIGINAL.finditer(message))
    return list(dict.fromkeys((name.rpartition(".")[2], text) for name, text in found))


def status(exception: str, message: str) -> str | None:
    """The canonical status code, from the exception's name or from the text."""
    found = _PREFIX.search(message) or _GRPC.search(message)
    if found:
        return found[1].upper().replace(" ", "_")
    if _HTTP_NOT_FOUND.search(message):
        return "NOT_FOUND"
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", exception.removesuffix("Error").removesuffix("Impl")).upper()
    return snake if snake in _CODES else None


def errno(message: str) -> int | None:
    """The system's error number, told as a number or by its name."""
    if found := _ERRNO.search(message):
        return int(found[1] or found[2])
    if found := _STRERROR.search(message):
        return _TOLD_BY_NAME[found[0].lower()]
    return None


def shorten(text: str, limit: int) -> str:
    """At most about ``limit`` characters: a third from the head, the rest from the tail, where the cause stands."""
    if len(text) <= limit:
        return text
    head = limit // 3
    return f"{text[:head]}\n... {len(text) - limit} characters left out ...\n{text[head - limit :]}"
