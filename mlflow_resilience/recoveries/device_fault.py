"""The accelerator failed: it, or the process's context on it, is of no more use."""

from __future__ import annotations

from mlflow_resilience.core.action import NewProcess
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"illegal_?(?:address|memory|instruction)|illegal (?:memory access|address)|illegal instruction was",
    r"launch_(?:failed|timeout)|launch failure|launchfailure",
    r"misaligned",
    r"device-side assert|cuda_error_assert|hardware_?(?: )?stack",
    r"\becc\b",
    r"\bxid\b|fallen off|gpu is lost|device (?:is )?lost|device_?unavailable|gpu_is_lost|nvlink",
    r"context_is_destroyed|cuda_error_(?:deinitialized|unknown|not_initialized)|poisoned",
    r"status_(?:execution_failed|mapping_error|internal_error)",
    r"event status",
    r"(?:fail\w*|could not|unable|error)\b.{0,40}\b(?:synchronize|query|record|wait)\b.*\b(?:stream|event|context)\b",
    r"device handle\b.*\bgpu|nvrm:.*\b(?:fail\w*|error)",
    r"(?:gpu|cuda|stream).* sync(?:hronization)? failed|gpu sync|(?:memcpy|memset)\b.*(?:fail|error)|fail\w*.*\bmemcpy",
    r"thenrnn|cudnn_status|cublas_status|cuda_?error|hip_?error",
    r"(?:tpu|core).*\bhalted|(?:tpu|device|accelerator).*unhealthy",
)


def matches(fault: Fault) -> bool:
    """Words of the driver and of the libraries on it."""
    return fault.says(_WORDS)


RECOVERY = Recovery(
    failure_class="device_fault",
    domain="infrastructure",
    matches=matches,
    condemns=lambda fault: True,
    ladder=(Rung((NewProcess(),), times=3),),
    hint="The accelerator or its driver failed. If it comes back: nvidia-smi and dmesg (Xid, ECC), another device, "
    "or CUDA_LAUNCH_BLOCKING=1 to find an operation that reads out of bounds.",
)
