"""The installation, the driver, or a permission is wrong."""

from __future__ import annotations

import errno

from mlflow_resilience.core.failure import Recovery
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"no module named|not installed|cannot import name|importerror|dll load|undefined symbol|glibc",
    r"shared (?:object|library)|could not load library",
    r"libdevice|ptxas|nvcc|ptx compilation|invalid_?ptx|unsupported toolchain",
    r"kernel image|compute capability|invalid_handle|registered platform",
    r"cuda.*\bno_?(?: )?device|no cuda|driver version|no_device|could not find cuda",
    r"\bcudnn\b.*\bversion\b.*\b(?:match|need\w*|requir\w*|higher|incompatib\w*)|native tensorflow",
    r"(?<!model was )(?:compiled|built) (?:with|against|for|using|to use)\b(?! (?:the )?(?:loss|optimi|metric))",
    r"please (?:re)?install|pip install|currently installed|_array_api|numpy [12]\.x",
    r"arch_mismatch|driver_mismatch|compat_not_supported|(?:communicate with the|latest) nvidia driver|unsupported_ptx",
    r"jit compilation failed|binary incompatib",
    r"requires .*version|version mismatch|incompatible version|\bprotoc\b|_pb2\b|protobuf",
    r"op type not registered|no opkernel|no registered|kernels? registered|supported kernel|satisfy .*device",
    r"only supports? .*\b(?:cpu|gpu)\b|not supported on (?:the )?(?:cpu|gpu)|dnn library is not found",
    r"\bavx|sigill|illegal instruction \(",
    r"permission|access denied|forbidden|unauthori[sz]ed|credential|read-only file|\bhttp\b.{0,20}\b40[137]\b",
)


def matches(fault: Fault) -> bool:
    """The system's refusal, an import that failed, or words of installations and drivers."""
    if fault.errno in (errno.EACCES, errno.EPERM, errno.EROFS) or fault.is_a("ImportError", "ModuleNotFoundError"):
        return True
    return fault.status in ("PERMISSION_DENIED", "UNAUTHENTICATED") or fault.says(_WORDS)


RECOVERY = Recovery(
    failure_class="environment",
    domain="infrastructure",
    matches=matches,
    hint="The installation, driver, hardware or a permission does not suit: correct what the message names; "
    "trying again cannot help.",
)
