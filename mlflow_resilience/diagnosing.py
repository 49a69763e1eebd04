"""A fit's `Diagnostics` among its callbacks tell the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow_resilience.diagnostics.callback import Diagnostics
from mlflow_resilience.diagnostics.outlet import JournalOutlet
from mlflow_resilience.training.plan import Plan


def tell_job(plan: Plan, journal: Any, attempt: Callable[[], int], artifacts: Path, index: int) -> None:
    """What the plan's diagnostics find goes into ``journal``, and their files into a folder among the job's
    ``artifacts``. ``attempt`` gives the number of the open attempt; ``index`` is the fit's place among a script's."""
    name = f"diagnostics/fit-{index:03d}" if index else "diagnostics"
    for callback in plan.callbacks:
        if isinstance(callback, Diagnostics):
            callback.outlet = JournalOutlet(journal, attempt, artifacts, name, plan.first_step)
