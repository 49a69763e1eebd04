"""Another process of a distributed training is gone."""

from __future__ import annotations

from mlflow_resilience.core.action import NewProcess, Wait
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"socket closed",
    r"(?<!base)collective|ringreduce|all_?reduce|allgather|broadcast .*peer",
    r"(?<!_)incarnation|context_id|master has restarted|session .*not found",
    r"job:(?:worker|ps|chief|evaluator).*(?:unavailable|down|lost|error|unreachable|closed|reset|unhealthy)",
    r"(?:worker|task|peer|rank|actor|node|replica|ps)\b.{0,40}\b"
    r"(?:died|dead|lost|disconnected|unhealthy|unreachable|restarted|preempted|shut ?down|crashed"
    r"|exited(?! with exit))",
    r"coordination ?service|barrier|heartbeat.*\b(?:task|timeout|missed|lost)",
    r"\bnccl|gloo|horovod|mpi_abort|\bmpi\b.*abort",
    r"(?:actor|worker)(?:died|crashed|unavailable|lost)|noderestart|parameterserver",
    r"all addresses|remote target|\brpc\b.*\b(?:fail|cancel)|external/\w*grpc",
)


def matches(fault: Fault) -> bool:
    """Words of distributed training."""
    return fault.says(_WORDS)


RECOVERY = Recovery(
    failure_class="worker_lost",
    domain="infrastructure",
    matches=matches,
    condemns=lambda fault: True,
    ladder=(Rung((Wait(), NewProcess()), times=5),),
    hint="Another process of the distributed training ended first: its own log has the root cause.",
)
