"""The machine's own memory ran out, or the kernel ended the process for it."""

from __future__ import annotations

from mlflow_resilience.core.action import NewProcess, ReduceInput, RetryStep, SplitBatch
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words
from mlflow_resilience.recoveries import allocation
from mlflow_resilience.recoveries.device_oom import condemns

_KILLED_FOR_IT = words(
    r"oom[ _-]?kill",
    r"memory.*killed process",
    r"killed (?:due to|because).*memory",
    r"(?:crashed|died).*(?:\bram\b|memory)",
    r"low on (?:resource: )?memory",
    r"(?:exceed|reach)\w* .*\bmemory (?:usage )?limit|memory limit .*exceeded|\bmem\b.*\bexceed\w* limit",
    r"exceeding memory limits|beyond (?:physical|virtual) memory",
)


def matches(fault: Fault) -> bool:
    """A failed allocation that was not on a device, or words of what kills for memory."""
    return fault.says(_KILLED_FOR_IT) or fault.errno == 12 or allocation.failed(fault)


RECOVERY = Recovery(
    failure_class="host_oom",
    domain="workload",
    matches=matches,
    certain=lambda fault: fault.kernel_oom,
    condemns=condemns,
    ladder=(
        Rung((SplitBatch(), RetryStep()), times=6, when=lambda fault: fault.phase != "data"),
        Rung((ReduceInput(), NewProcess(or_roll_back=True)), times=2),
        Rung((NewProcess(or_roll_back=True),)),
    ),
    hint="The machine's memory ran out: a smaller batch_size or shuffle buffer, no cache() of a large data set, data "
    "read from files instead of one large array, or a machine with more memory.",
    detail=allocation.largest,
)
