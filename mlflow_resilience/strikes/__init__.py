"""What each fault on purpose does when it strikes: one kind of trouble a file, each the real thing where the machine
allows it."""

from __future__ import annotations

from mlflow_resilience.strikes import data, disk, memory, network, process, program, recorded, system
from mlflow_resilience.strikes.place import Place, Strike

__all__ = ["STRIKES", "Place", "Strike"]

#: By their names in a plan; ``fault_plan.KINDS`` are the same.
STRIKES: dict[str, Strike] = {
    **memory.STRIKES,
    **data.STRIKES,
    **program.STRIKES,
    **process.STRIKES,
    **disk.STRIKES,
    **network.STRIKES,
    **system.STRIKES,
    **recorded.STRIKES,
}
