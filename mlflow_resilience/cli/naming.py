"""The whole id of a run that a command was given, before anything is started for it.

``python -m mlflow_resilience.cli.naming NAME`` asks MLflow, in a process of its own: what MLflow does to a process and
its environment must not be handed on to a training.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from mlflow_resilience.cli.supervision import package_path
from mlflow_resilience.errors import ResilienceError, UsageError
from mlflow_resilience.spool import naming
from mlflow_resilience.spool.folder import home

_USAGE = 2
_WHOLE = re.compile(r"[0-9a-f]{32}")


def job_to_resume(name: str) -> str:
    """``auto`` and ``never`` as they are; else the whole id of the job or run. Raises UsageError where there is none.
    With a tracking server that does not answer it stays as it is: the job asks again."""
    if name in ("auto", "never"):
        return name
    return naming.whole(home(), name) or _asked(name, "to resume from") or name


def run_to_join(name: str) -> str:
    """The whole id of the run. Raises UsageError where there is none that begins so."""
    return name if _WHOLE.fullmatch(name) else naming.whole(home(), name) or _asked(name, "to go on in") or name


def _asked(name: str, purpose: str) -> str:
    """What MLflow answers; empty where it does not."""
    done = subprocess.run(
        [sys.executable, "-m", "mlflow_resilience.cli.naming", name],
        env={**os.environ, **package_path()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode == _USAGE:
        told = (done.stderr.strip().splitlines() or [""])[-1]
        raise UsageError(told or f"there is no run or job {name} {purpose}: not in {home()}, nor in MLflow")
    return done.stdout.strip() if done.returncode == 0 else ""


def _main(name: str) -> int:
    from mlflow_resilience.cli.store import client_of
    from mlflow_resilience.tracking.naming import find

    try:
        with client_of(None) as (client, _):
            run = find(client, name)
    except UsageError as error:
        print(error, file=sys.stderr)
        return _USAGE
    except (ResilienceError, OSError):
        return 1
    if run is None:
        return _USAGE
    print(run.info.run_id)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
