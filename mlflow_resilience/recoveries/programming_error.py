"""The program is wrong, and will be wrong the next time too."""

from __future__ import annotations

import errno
import re

from mlflow_resilience.core.failure import Recovery
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.origin import packages
from mlflow_resilience.core.text import words
from mlflow_resilience.recoveries import allocation

_WORDS = words(
    r"no gradients?|gradient .*\b(?:defined|registered)",
    r"(?:not|cannot) recogni[sz]ed?\b|unrecogni[sz]ed",
    r"already exists|\bunique\b|\bduplicate|not json|(?:can't|cannot) pickle|get_config",
    r"\bcompiled?\b|been built|not built|graph disconnected|uninitialized|not (?:been )?(?:yet )?initialized",
    r"unknown (?:layer|loss|metric|optimizer|activation)|could not (?:interpret|locate)|custom_objects",
    r"graph tensor|symbolic|another function|out of scope|kerastensor|autograph|first call|placeholder",
    r"could not find (?:variable|resource)|access resource",
)
#: What Python itself says of a name, an attribute, an argument or an operation that is not there.
_OF_CODE = words(
    r"no attribute|is not defined|not callable|not subscriptable|not iterable|unsupported operand",
    r"unexpected keyword|positional argument|required argument|multiple values|takes \d+",
)
_RAISED_BY_CODE = ("NameError", "AttributeError", "TypeError", "SyntaxError", "ImportError", "ModuleNotFoundError")
#: Words that mean this only in the mouth of a library that checks what it is given.
_CHECKED = words(
    r"compatible|mismatch|\bshapes?\b|\brank\b|\bndim\b|\bdim(?:ension)?s?\b|broadcast|\bd?types?\b|\baxis\b|\bcardinality",
    r"convert|must\b|expect(?:s|ed)?\b.*\b(?:got|found|received)|expected to be|not supported",
    r"invalid\b|arguments?\b|only valid\b|please specify",
)
_A_PATH = re.compile(r"\s*(?:[\w.+-]+: ?)?[~.]?/[^\s;]*\s*$")
_CHECKS = (
    *("ValueError", "TypeError", "AttributeError", "InvalidArgumentError", "UnimplementedError", "InternalError"),
    *("NotFoundError", "LookupError", "NotImplementedError", "XlaRuntimeError", "FailedPreconditionError", ""),
)
_SENTENCE = re.compile(r"\w+ \w+ \w+ \w+")
_NAMED = (
    *("NameError", "UnboundLocalError", "SyntaxError", "IndentationError", "TabError", "RecursionError"),
    "UsageError",
    *("InaccessibleTensorError", "OperatorNotAllowedInGraphError"),
)
_ABORTED = words(r"\bcheck failed:")  # native code gave up; what it says of shapes is its own business
_PICTURE = words(r"\b(?:png|jpe?g|gif|bmp|tiff?) file")  # a picture's own syntax


def of_code(fault: Fault) -> bool:
    """Whether Python complains of the code itself, which is nothing else whatever words the names in it hold. In a
    data pipeline it may as well be an odd record."""
    return (
        fault.phase != "data"
        and fault.is_a(*_RAISED_BY_CODE)
        and not fault.says(_PICTURE)
        and (fault.is_a("ImportError", "ModuleNotFoundError", "SyntaxError") or fault.says(_OF_CODE))
    )


def matches(fault: Fault) -> bool:
    """A request for impossible memory, a name that is not there, or a library's complaint about what it was given."""
    if allocation.impossible(fault) or fault.is_a(*_NAMED):
        return True
    if fault.errno in (errno.ENOTDIR, errno.EISDIR):
        return True
    if fault.status == "FAILED_PRECONDITION" and _A_PATH.match(fault.message):
        return True  # a reader was given what is no file; the system's own word for it is lost
    if fault.is_a("KeyError") and _SENTENCE.search(fault.message):
        return True  # a plain lookup names the key alone; this one was worded by a library
    if fault.says(_ABORTED):
        return False
    if fault.says(_WORDS) or fault.says(_OF_CODE) or (fault.exception in _CHECKS and fault.says(_CHECKED)):
        return True
    return fault.is_a("ValueError", "TypeError") and packages(fault.traceback)[:1] in (["keras"], ["tensorflow"])


RECOVERY = Recovery(
    failure_class="programming_error",
    domain="workload",
    matches=matches,
    hint="The code or its configuration is wrong: correct what the message names; trying again cannot help.",
)
