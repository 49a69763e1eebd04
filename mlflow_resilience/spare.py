"""A warm spare of the worker: imports what the worker imports, the recipe too, and waits until it is wanted."""

from __future__ import annotations

import importlib
import os
import sys

from mlflow_resilience import job as jobs
from mlflow_resilience import recipe, worker
from mlflow_resilience.errors import UsageError
from mlflow_resilience.spool.folder import JobFolder

_COLD = "cold"


def main() -> int:
    """Become the worker of the attempt whose number comes on the standard input; 0 when none ever comes."""
    if _COLD not in sys.argv[1:] and not _prepared():
        os.execv(sys.executable, [sys.executable, "-m", "mlflow_resilience.spare", _COLD])
    attempt = sys.stdin.readline().strip()
    if not attempt:
        return 0
    os.environ["MLFLOW_RESILIENCE_ATTEMPT"] = attempt
    return worker.main()


def _prepared() -> bool:
    """Whether everything is imported, and nothing was computed by it: device settings would come too late then, and a
    GPU be in use twice."""
    from tensorflow.python.eager import context

    importlib.import_module("mlflow_resilience.fitting")
    folder = JobFolder.open(os.environ["MLFLOW_RESILIENCE_JOB"])
    try:
        recipe.load(str(jobs.entry_of(folder)["config"]["recipe"]))
    except UsageError:
        return False  # the worker will say it
    return not context.context()._initialized


if __name__ == "__main__":
    sys.exit(main())
