"""The failure classes that are known: one a file, each with its matcher, its ladder and a hint."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points

from mlflow_resilience.core.failure import Recovery, asked_first
from mlflow_resilience.core.policy import Policy
from mlflow_resilience.recoveries import (
    bad_data,
    checkpoint_error,
    device_fault,
    device_oom,
    disk_full,
    divergence,
    environment,
    hang,
    host_oom,
    input_exhausted,
    interruption,
    process_death,
    programming_error,
    resource_limit,
    tracking,
    transient_io,
    unknown,
    worker_lost,
)

_OF_CODE = ("programming_error", "environment")


def _not_of_code(recovery: Recovery) -> Recovery:
    """Leaves to those two what Python says of the code itself."""
    if recovery.failure_class in _OF_CODE:
        return recovery
    return replace(recovery, matches=lambda fault: not programming_error.of_code(fault) and recovery.matches(fault))


#: In order of precedence, where more than one would match: what many layers disguise comes first (a full disk arrives
#: as an exhausted resource), what is told by the vaguest words last.
BUILT_IN: tuple[Recovery, ...] = tuple(
    _not_of_code(module.RECOVERY)
    for module in (
        interruption,
        hang,
        disk_full,
        tracking,
        environment,
        device_oom,
        host_oom,
        device_fault,
        divergence,
        resource_limit,
        worker_lost,
        input_exhausted,
        checkpoint_error,
        bad_data,
        transient_io,
        programming_error,
        process_death,
        unknown,
    )
)


@cache
def installed() -> tuple[Recovery, ...]:
    """Those that other installed packages register under the entry point group ``mlflow_resilience.recovery``."""
    return tuple(asked_first(entry.load()) for entry in entry_points(group="mlflow_resilience.recovery"))


def known(policy: Policy) -> tuple[Recovery, ...]:
    """All that a fault is held against: the policy's own, the installed, the built-in ones, in this order."""
    return (*policy.recoveries, *installed(), *BUILT_IN)
