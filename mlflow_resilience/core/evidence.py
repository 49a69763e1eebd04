"""The order in which the links of a cause chain are asked what happened: the root cause first."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from mlflow_resilience.core import text
from mlflow_resilience.core.fault import Cause, Fault
from mlflow_resilience.core.logs import TRACEBACK
from mlflow_resilience.core.reading import read_fault

#: Errors that working code handles every day on its way elsewhere; as a mere context they explain nothing.
_EVERYDAY = {
    *("AttributeError", "KeyError", "IndexError", "LookupError", "ImportError", "ModuleNotFoundError"),
    *("StopIteration", "TypeError", "ValueError", "NotImplementedError", "FileNotFoundError", "FileExistsError"),
    *("UnicodeDecodeError", "AssertionError"),
}
#: TensorFlow's note that an error came up through the data iterator; an edge ("IteratorGetNext/_4") is no such note.
_ITERATOR = re.compile(
    r"\[\[(?:\{\{node )?(?:[\w.]+/)*(?:\w*IteratorGetNext\w*|ReaderRead\w*)(?:\}\}| =|\]\])|Node: ReaderRead"
)


def links(fault: Fault) -> tuple[Fault, ...]:
    """The fault as seen from each link of its cause chain, most telling first.

    That is the root cause before what it led to; consequences (a cancelled call, a closed socket) and errors that
    were merely being handled come after both. Of a dead process its last output is asked before its signal.
    """
    return _links(fault)


def own_links(fault: Fault) -> tuple[Fault, ...]:
    """Those of the chain itself, without what a log told around it."""
    return _links(replace(fault, chain=tuple(cause for cause in fault.chain if cause.relation != "log")))


@lru_cache(maxsize=16)
def _links(fault: Fault) -> tuple[Fault, ...]:
    if fault.phase in ("unknown", "step", "trace") and _ITERATOR.search(fault.message):
        fault = replace(fault, phase="data")
    told = [*reversed(fault.chain), Cause(fault.exception, fault.message)]
    parts = [part for cause in told for part in _parts(cause)]
    ordered = sorted(dict.fromkeys(parts), key=_rank)
    return (*_last_words(fault), *(_focus(fault, cause) for cause in ordered))


def _parts(cause: Cause) -> Iterator[Cause]:
    for root in text.roots(cause.message):
        yield replace(cause, message=root)
    yield replace(cause, message=text.clean(cause.message) or cause.message)


def _rank(cause: Cause) -> int:
    if cause.relation == "log":
        return 3
    if cause.relation == "context" and cause.exception in _EVERYDAY:
        return 2
    return 1 if text.is_consequence(cause.exception, cause.message) else 0


def _focus(fault: Fault, cause: Cause) -> Fault:
    seen = replace(fault, exception=cause.exception, message=cause.message, chain=(), output_tail="")
    number = text.errno(cause.message)
    if cause.exception == fault.exception:
        return seen if number is None else replace(seen, errno=number)
    return replace(seen, type_names=(), traceback="", errno=number, signal=None, exit_code=None)


def _last_words(fault: Fault) -> tuple[Fault, ...]:
    if not fault.output_tail:
        return ()
    if fault.signal == signal.SIGKILL and TRACEBACK not in fault.output_tail:
        return ()  # nobody can say a word about it: what was said before is everyday output
    read = read_fault(fault.output_tail)
    if read.exception.endswith("Warning"):  # no process dies of one
        return ()
    return _links(replace(read, position=fault.position, device=fault.device, jit=fault.jit))
