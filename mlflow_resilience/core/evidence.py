"""The order in which the links of a cause chain are asked what happened: the root cause first."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from mlflow_resilience.core import text
from mlflow_resilience.core.fault import Cause, Fault, Phase
from mlflow_resilience.core.logs import TRACEBACK
from mlflow_resilience.core.reading import read_fault

#: Errors that working code handles every day on its way elsewhere; as a mere context they explain nothing.
_EVERYDAY = {
    *("AttributeError", "KeyError", "IndexError", "LookupError", "ImportError", "ModuleNotFoundError"),
    *("StopIteration", "TypeError", "ValueError", "NotImplementedError", "FileNotFoundError", "FileExistsError"),
    *("UnicodeDecodeError", "AssertionError"),
}
#: TensorFlow's note that an error came up through the data iterator, or out of a decoder; an edge between two others
#: ("IteratorGetNext/_4") is no such note.
_ITERATOR = re.compile(
    r"\[\[(?:\{\{)?(?:node )?(?:[\w.]+/)*(?:\w*IteratorGetNext\w*|ReaderRead\w*)(?:\}\}| =|\]\]| \(defined)"
    r"|Node: ReaderRead|(?:node |Node: |Op:|__wrapped__)(?:[\w.]+/)*(?:Decode[A-Z]\w*|Parse\w*Example\w*|ReadFile)\b"
)
#: Its note of the operation that reads or writes a checkpoint.
_SAVING = re.compile(r"\[\[.{0,200}?\b(?:SaveV2|MergeV2Checkpoints)|\[Op:(?:SaveV2|MergeV2Checkpoints)")
_RESTORING = re.compile(r"\[\[.{0,200}?\bRestoreV2|\[Op:RestoreV2")
#: A message that only points to the log for its cause, and what there can be one.
_SEE_ABOVE = text.words(r"\b(?:log|errors?|warnings?)\b.{0,40}\babove")
_LIBRARY = text.words(r"cudnn|\bdnn\b|cublas|cufft|cusolver")


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
    fault = replace(fault, phase=_phase(fault))
    told = [*reversed(fault.chain), Cause(fault.exception, fault.message)]
    parts = [part for cause in told for part in _parts(cause)]
    sees_above = any(_SEE_ABOVE.search(cause.message) for cause in told)
    ordered = sorted(dict.fromkeys(parts), key=lambda cause: _rank(cause, sees_above))
    return (*_last_words(fault), *(_focus(fault, cause) for cause in ordered))


def _parts(cause: Cause) -> Iterator[Cause]:
    for root in text.roots(cause.message):
        yield replace(cause, message=root)
    yield replace(cause, message=text.clean(cause.message) or cause.message)


def _phase(fault: Fault) -> Phase:
    """TensorFlow's note of where an error came from is more exact than where it was met."""
    if fault.phase not in ("unknown", "step", "trace"):
        return fault.phase
    if _ITERATOR.search(fault.message):
        return "data"
    if _SAVING.search(fault.message):
        return "checkpoint"
    return "restore" if _RESTORING.search(fault.message) else fault.phase


def _rank(cause: Cause, sees_above: bool) -> int:
    if cause.relation == "log":
        return 0 if sees_above and _LIBRARY.search(cause.message) else 3
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
