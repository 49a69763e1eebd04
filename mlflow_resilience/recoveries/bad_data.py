"""Some records cannot be read, decoded, or batched with the others."""

from __future__ import annotations

import re

from mlflow_resilience.core.action import Quarantine
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"(?:unknown|unsupported|unrecognized|invalid|bad) (?:image|audio|video) (?:file )?(?:format|data|header)",
    r"\bimage\b.*\b(?:unknown|unsupported|invalid) (?:file )?format",
    r"(?:invalid|corrupt\w*|truncated|premature|broken|bogus|damaged).*\b(?:jpe?g|png|gif|bmp|webp|tiff?|wav|image|record|stream)\b",
    r"(?:jpe?g|png|gif|bmp|webp|image|wav|file).*\b(?:truncated|corrupt\w*|uncompress|premature)",
    r"(?:jpe?g|png|gif|bmp|image)\w* .*\bdecod|decod\w* .*\b(?:jpe?g|png|gif|bmp|image|audio|wav)",
    r"not an? (?:jpe?g|png|gif|bmp|image|wav)|bytes as (?:jpe?g|png)",
    r"cannot identify image|unidentifiedimage",
    r"input is empty|_src\.empty|empty (?:image|file|record)",
    r"(?:truncated|corrupt\w*) (?:record|block)",
    r"inflate|decompress|uncompress|crc check failed|badgzip|libpng (?:error|warning)",
    r"\bchannels?\b.*\b(?:inherent|from file)|target transition|null label",
    r"bad (?:format|file) (?:chunk )?size|data too short|\beof reached",
    r"parse (?:serialized )?example|serialized example|feature.*\brequired\b",
    r"cannot (?:batch|add) tensors? .*|batch tensors with different",
    r"(?:field|column)s? .*\b(?:record|line|saw|valid)|tokenizing data",
    r"(?:correctly )?convert string|could not convert string",
    r"label value.*outside|outside the valid range|labels?\b.*out of (?:range|bounds?)",
    r"indices\[.*\] = -?\d+ is not in",
    r"codec can't decode|invalid utf-?8|not valid utf",
    r"generator yielded|yielded an element",
    r"(?:expected|expect) (?:riff|\"?riff|wave)|bad audio|libsndfile|format not recognised",
    r"opencv.*\bempty\(|_src\b",
    r"parquet|arrowinvalid|magic bytes",
)
_FILE = re.compile(
    r"\.(?:jpe?g|png|gif|bmp|webp|tiff?|wav|mp3|flac|ogg|mp4|avi|npy|npz|csv|tsv|jsonl?|txt|parquet|tf_?records?|arrow|"
    r"dcm|nii|gz|zip)\b",
    re.IGNORECASE,
)
_MISSING = words(r"no such object|nosuchkey")
_NOTHING = words(r"nonetype")  # what a reader returned for a record that it could not read
_NAMED = (
    *("BadRecords", "DataLossError", "UnidentifiedImageError"),
    *("DecompressionBombError", "JSONDecodeError", "BadZipFile"),
)


def matches(fault: Fault) -> bool:
    """Words of decoders and parsers; and what a data pipeline raises about its values."""
    if fault.phase in ("restore", "checkpoint", "start"):
        return False
    if fault.says(_WORDS) or fault.status == "DATA_LOSS":
        return True
    if fault.errno == 2 or fault.status == "NOT_FOUND" or fault.says(_MISSING):
        return fault.phase == "data" or fault.says(_FILE) or fault.says(_MISSING)
    if fault.phase != "data":
        return False
    if fault.status == "INVALID_ARGUMENT" or fault.is_a(*_NAMED, "ValueError", "UnicodeError", "EOFError"):
        return True
    return fault.says(_NOTHING)


RECOVERY = Recovery(
    failure_class="bad_data",
    domain="workload",
    matches=matches,
    ladder=(Rung((Quarantine(),), times=3),),
    hint="Some records are damaged, missing, or unlike the others: resilience/quarantine.jsonl names them. If nearly "
    "all are refused, the pipeline or the model's number of classes does not suit the data.",
)
