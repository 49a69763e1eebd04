"""Faults on purpose, as they are written: ``KIND@STEP[xTIMES][,KIND@STEP...]``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlflow_resilience.errors import UsageError

KINDS = (
    *("oom", "host_oom", "device_oom"),
    *("nan", "spike", "corrupt_record", "input_exhausted", "slow_data"),
    *("raise", "bug", "environment"),
    *("kill", "segfault", "term", "hang"),
    *("disk_full", "torn_checkpoint", "tracking_down"),
    *("transient_io", "resource_limit"),
    *("device_fault", "worker_lost", "tracking"),
)

_SPEC = re.compile(r"(?P<kind>[a-z_]+)@(?P<step>[0-9]+)(?:x(?P<times>[0-9]+))?")


@dataclass(frozen=True)
class PlannedFault:
    """One fault on purpose. ``step`` is the global optimiser step, from 1, that it strikes; ``times`` how often."""

    kind: str
    step: int
    times: int = 1

    def __str__(self) -> str:
        return f"{self.kind}@{self.step}" + (f"x{self.times}" if self.times > 1 else "")


def parse(text: str) -> tuple[PlannedFault, ...]:
    """The faults that the text names, in its order; none for an empty text or ``none``."""
    if text.strip() in ("", "none"):
        return ()
    return tuple(_parse_one(part.strip()) for part in text.split(","))


def _parse_one(text: str) -> PlannedFault:
    match = _SPEC.fullmatch(text)
    if match is None:
        raise UsageError(f"fault={text}: KIND@STEP or KIND@STEPxTIMES is needed, e.g. kill@140")
    kind, step, times = match["kind"], int(match["step"]), int(match["times"] or 1)
    if kind not in KINDS:
        raise UsageError(f"fault={text}: there is no fault {kind!r}; known are {', '.join(KINDS)}")
    if step < 1 or times < 1:
        raise UsageError(f"fault={text}: steps and times count from 1")
    return PlannedFault(kind, step, times)
