"""The data ended before the training did."""

from __future__ import annotations

import re

from mlflow_resilience.core.action import RebuildInput, RetryStep
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"ran out of data",
    r"empty logs|\bno (?:images|files|samples|records|data) (?:were )?found",
    r"end of sequence",
    r"queue.*\b(?:closed|insufficient)|insufficient elements",
    r"(?:data ?set|sequence|generator|iterator)\b.*\b(?:is empty|has length 0|exhausted|non-?empty)",
    r"empty (?:data ?set|sequence|generator)|non-?empty (?:array|data ?set)",
    r"variable '?(?:logs|epoch_logs|train_logs|val_logs)'? referenced|variable '?\w*logs'? where",
    r"inputexhausted",
)
_SHORT_FILE = words(r"bytes|\beof\b")  # another matter
_ASKED = re.compile(r"\b(\d+) batches")


def matches(fault: Fault) -> bool:
    """Words for an end of data, or the exceptions that stand for it."""
    if fault.says(_WORDS) or fault.is_a("StopIteration"):
        return True
    return fault.status == "OUT_OF_RANGE" and not fault.says(_SHORT_FILE)


def detail(fault: Fault) -> str:
    """The arithmetic: what was done, what was asked for."""
    asked = _ASKED.search(fault.message)
    got = f"{fault.global_step} steps were done"
    return f"{got}, {asked[1]} batches were asked for" if asked else got


RECOVERY = Recovery(
    failure_class="input_exhausted",
    domain="workload",
    matches=matches,
    ladder=(Rung((RebuildInput(), RetryStep())),),
    hint="The data ends early: give the data set .repeat(), or ask for no more than steps_per_epoch x epochs batches "
    "that it has; an empty one often means a wrong path or pattern.",
    detail=detail,
)
