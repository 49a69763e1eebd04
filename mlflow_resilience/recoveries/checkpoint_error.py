"""A checkpoint cannot be read or written, or belongs to another model."""

from __future__ import annotations

import errno
import re

from mlflow_resilience.core.action import OlderCheckpoint, SkipSave
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words
from mlflow_resilience.recoveries import transient_io

_WORDS = words(
    r"(?<![\w/\\.='\"-])checkpoints?(?![\w/\\'\"-])",  # not as a folder, alone or in the path of something else
    r"tensorslicereader|matching files|table file|bad magic|sstable",
    r"unable to (?:synchronously )?(?:open|create|read|flush|lock) (?:file|object|dataset|group|link)|lock file",
    r"file signature|object header|superblock|sblock",
    r"\b(?:re)?load(?:s|ed|ing)?(?![a-z]).*\b(?:weights?|variables?|layers?)\b|\brestor(?:e[sd]?|ing)\b.*\b(?:weights?|variables?|layers?)\b",
    r"\b(?:weights?|variables?|layers?)\b.*\b(?:loading|restor\w+)",
    r"\bweights? (?:file|count)|layer (?:count|weight)|\b(?:saved )?weights? .*\bshape|\bweight (?:shape|list)",
    r"expect\w* \d+ (?:weights|variables|layers)",
    r"saved_?model.*\b(?:not exist|file)|saved model",
    r"safetensor|deserializing header|headertoo|zip archive|central directory|unpickl|pickle data|load key",
    r"checksum|crc mismatch|bad crc",
    r"objects could not be loaded|assign requires shapes|\borbax\b|ocdbt",
)
_OTHER_MODEL = words(r"mismatch|compatible|\bshapes?\b|expect\w* \d+|\blayers\b|not found in checkpoint")
_TAKEN = words(r"already exists")  # two layers of one name
_FILE = re.compile(
    r"\.(?:ckpt|h5|hdf5|keras|index|weights|pb|safetensors|pt|pth|pkl)\b|\bckpt\b|saved_?model|['\"/]checkpoint['\"]",
    re.IGNORECASE,
)
_DATA = words(r"\.(?:npz|zip)\b")
_PHASES = ("restore", "checkpoint")


def matches(fault: Fault) -> bool:
    """Words of what reads and writes checkpoints; a file of that kind that is missing; anything while at it."""
    if fault.phase in _PHASES and not fault.process_gone:
        return not transient_io.matches(fault)
    if fault.phase in ("data", "validation"):
        return False
    if fault.errno in (errno.ENOENT, errno.EISDIR) or fault.status in ("NOT_FOUND", "DATA_LOSS"):
        return fault.says(_FILE) or fault.says(_WORDS)
    if fault.is_a("CheckpointError"):
        return True
    if fault.says(_TAKEN):
        return False
    if fault.is_a("BadZipFile", "UnpicklingError") and not fault.says(_DATA):
        return True
    return fault.says(_WORDS) or (fault.is_a("EOFError") and fault.says(_FILE))


def may_be_older(fault: Fault) -> bool:
    """Whether an older checkpoint could fare better: not where this one belongs to another model."""
    return fault.phase != "checkpoint" and not fault.says(_OTHER_MODEL)


RECOVERY = Recovery(
    failure_class="checkpoint_error",
    domain="workload",
    matches=matches,
    ladder=(
        Rung((SkipSave(),), times=5, when=lambda fault: fault.phase == "checkpoint"),
        Rung((OlderCheckpoint(),), times=3, when=may_be_older),
    ),
    hint="The checkpoint is damaged, missing, locked by another process, or from another architecture: an older intact "
    "one is taken; if the model was changed, start with resume=never.",
)
