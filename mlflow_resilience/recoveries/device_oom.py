"""The accelerator's memory ran out."""

from __future__ import annotations

from mlflow_resilience.core.action import GrowMemory, NewProcess, RetryStep, SplitBatch
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words
from mlflow_resilience.recoveries import allocation

#: Texts that mean memory without naming it: a copy that found no room, a library handle that could not be made.
_UNNAMED = words(
    r"(?:dst|src) tensor is not initialized",
    r"\bhbm\b.*(?:exceed|capacity)|exceed\w* .*\bhbm\b",
    r"\breserv\w+ .*\bfree\b",
    r"(?:fail\w*|could not|unable) to (?:create|initialize|get) cu(?:dnn|blas|solver|sparse|fft)\w*( handle)?",
    r"cu(?:dnn|blas)create",
    r"cu(?:dnn|blas|solver)\w* (?:library )?(?:failed to initialize|initialization failed)|dnn library initialization",
    r"convolution algorithm.*cudnn",
    r"without blas support",
    r"blas (?:x?gemm\w*|scal|sgemm\w*) ?launch",
    r"status_(?:alloc_failed|not_initialized)",
)


def matches(fault: Fault) -> bool:
    """A failed allocation that was not on the host, or a text that means one."""
    if fault.says(_UNNAMED):
        return True
    if not allocation.failed(fault) or fault.phase == "data" or fault.says(allocation.KILLERS):
        return False
    if fault.says(allocation.ON_DEVICE):
        return True
    return not fault.says(allocation.ON_HOST) and fault.device.upper() != "CPU"


def condemns(fault: Fault) -> bool:
    """Under jit every variable holds freed memory afterwards, and the process dies soon."""
    return fault.jit and fault.phase != "data"


RECOVERY = Recovery(
    failure_class="device_oom",
    domain="workload",
    matches=matches,
    condemns=condemns,
    ladder=(
        Rung((SplitBatch(), RetryStep()), times=8),
        Rung((GrowMemory(), NewProcess())),
    ),
    hint="The model and one batch do not fit into the device's memory: a smaller batch_size, a smaller model or "
    "input, or mixed precision. Another process may hold the memory (nvidia-smi).",
    detail=allocation.largest,
)
