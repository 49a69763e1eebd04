"""The sender process: ``python -m mlflow_resilience.sender <job folder>``. It alone talks to MLflow.

Exit codes: 0 all is delivered; 2 wrong usage; 3 given up for now, the rest waits on disk; 4 the tracking store can
never work; 5 another sender is at it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from mlflow_resilience.core.redaction import HIDDEN, redact
from mlflow_resilience.notify import following
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.spool.lease import Lease
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.tracking.rendering import Renderers
from mlflow_resilience.tracking.state import SenderState
from mlflow_resilience.tracking.store import absolute, prepare_environment, why_never
from mlflow_resilience.tracking.sync import sync
from mlflow_resilience.undisturbed import CleanRun

USAGE, BUSY = 2, 5
PATIENCE_SECONDS = 60.0
JOB_ENTRY_SECONDS = 5.0
SWEEP_MOST = 3  # older jobs that one start delivers
SWEEP_AFTER_SECONDS = 10.0  # our own job's opening comes first

_NOT_KEPT = "the credentials in {} are kept nowhere: set MLFLOW_TRACKING_URI to the whole address and call sync again"

_log = logging.getLogger("mlflow_resilience.sender")


def main(arguments: Sequence[str] | None = None) -> int:
    """Deliver one job, from the first entry of its journal to the last."""
    given = sys.argv[1:] if arguments is None else arguments
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    if len(given) != 1:
        print("usage: python -m mlflow_resilience.sender <job folder>", file=sys.stderr)
        return USAGE
    try:
        folder = JobFolder.open(given[0])
    except OSError as error:
        print(error, file=sys.stderr)
        return USAGE
    lease = Lease.take(folder.sender_lock, "sender")
    if lease is None:
        return BUSY
    with lease, following(folder):
        return _send(folder)


def _send(folder: JobFolder) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the job
    with contextlib.suppress(OSError):
        os.nice(5)  # training comes first
    state = SenderState.load(folder.sender_state)
    state.job_id = folder.job_id
    state.say("starting")
    state.save(folder.sender_state)
    _open_store(folder, state)
    from mlflow_resilience.tracking.session import Session

    patience = float(os.environ.get("MLFLOW_RESILIENCE_SENDER_PATIENCE") or PATIENCE_SECONDS)
    session = Session(folder, state, renderers(partial(_clean, state)), patience)
    signal.signal(signal.SIGTERM, lambda *_: session.hurry())
    session.scout.poll()
    if not session.scout.ended and state.state != "invalid":
        threading.Thread(target=_sweep, args=(folder,), daemon=True).start()
    return session.run()


def _open_store(folder: JobFolder, state: SenderState) -> None:
    """Settle which store it is, as understood from any working directory, and whether it can ever work."""
    prepare_environment()
    import mlflow

    wanted = os.environ.get("MLFLOW_RESILIENCE_TRACKING_URI") or _wanted(folder)
    uri = absolute(_with_credentials(wanted or mlflow.get_tracking_uri()))
    mlflow.set_tracking_uri(uri)
    state.tracking_uri = redact(uri)
    reason = _NOT_KEPT.format(uri) if HIDDEN in uri else why_never(uri)
    if reason is not None:
        state.say("invalid", reason)
        _log.error("%s", reason)
    state.save(folder.sender_state)


def _with_credentials(uri: str) -> str:
    """The address as the environment has it, where the job's own lacks what must not be on disk."""
    ours = os.environ.get("MLFLOW_TRACKING_URI", "")
    return ours if HIDDEN in uri and redact(ours) == uri else uri


def _wanted(folder: JobFolder) -> str | None:
    """The store that the job names. Waits a little for a job that is only being set up."""
    deadline = time.monotonic() + JOB_ENTRY_SECONDS
    while True:
        record = JobRecord.read(folder.journal)
        if record.job or record.ended is not None or time.monotonic() > deadline:
            return record.job.get("tracking_uri")
        time.sleep(0.05)


def renderers(clean: Callable[[JobRecord], CleanRun | None] = lambda _: None) -> Renderers:
    """Figures and report; what they need is imported when they are first made. ``clean`` finds the run that a result
    is held against."""

    def curves(record: JobRecord) -> bytes | None:
        from mlflow_resilience import plots

        return plots.training_curves(record)

    def memory(record: JobRecord) -> bytes | None:
        from mlflow_resilience import plots

        return plots.memory(record)

    def report(record: JobRecord) -> bytes | None:
        from mlflow_resilience.report import render

        return render(record, clean(record)).encode()

    return {"plots/training_curves.png": curves, "plots/memory.png": memory, "report.html": report}


def _clean(state: SenderState, record: JobRecord) -> CleanRun | None:
    """The clean run of the same training in MLflow. A report is made without it rather than not at all."""
    if record.ended is None or not state.experiment_id:
        return None
    try:
        from mlflow.tracking import MlflowClient

        from mlflow_resilience.tracking import clean_runs

        return clean_runs.find(MlflowClient(), str(state.experiment_id), record)
    except Exception:
        _log.warning("no clean run to hold the result against could be looked for", exc_info=True)
        return None


def _sweep(folder: JobFolder) -> None:
    """Deliver what older jobs of this home left behind, and close the runs of dead owners in the store."""
    time.sleep(float(os.environ.get("MLFLOW_RESILIENCE_SWEEP_SECONDS") or SWEEP_AFTER_SECONDS))
    try:
        sync(folder.path.parent.parent, most=SWEEP_MOST)
        from mlflow.tracking import MlflowClient

        from mlflow_resilience.tracking.reaping import reap_store

        reap_store(MlflowClient())
    except Exception:
        _log.exception("older jobs could not be looked after")


if __name__ == "__main__":
    sys.exit(main())
