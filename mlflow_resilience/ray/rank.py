"""The process of one rank: trains as a worker does, together with the others."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

from mlflow_resilience import worker
from mlflow_resilience.errors import UsageError
from mlflow_resilience.job import Job, entry_of, join, listen_for_stacks
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.ray.notices import DONE, Notices, from_environment
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.stop import STOP


def main() -> int:
    """Train to the end, as one of several: the exit code is a worker's, or that of a fault left in a notice."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [*STOP, signal.SIGUSR2])  # as Ray's threads may have them
    notices, rank, size = from_environment()
    folder = JobFolder.open(os.environ["MLFLOW_RESILIENCE_JOB"])
    job = join() if rank == 0 else _aside(folder, notices.folder / f"rank-{rank}")
    assert job is not None
    if rank == 0:
        listen_for_stacks(job)
    parameters = Parameters.from_dict(job.entry.get("config") or {})
    from mlflow_resilience.ray.company import Company

    company = Company(rank=rank, size=size, notices=notices, folder=folder, job=job)
    try:
        code = worker.train(job, parameters, company)
    except UsageError as error:
        notices.tell_of_rank(rank, "usage", text=str(error))
        code = worker.USAGE
    job.journal.close()
    if code in (worker.FINISHED, worker.PREEMPTED):
        _end_together(notices, company)
    return code


def _aside(folder: JobFolder, path: Path) -> Job:
    """A job folder of this rank's own, which begins with what the job has gone through and is thrown away in the end:
    only the chief speaks for the job."""
    path.mkdir(parents=True)
    shutil.copyfile(folder.journal, path / "journal")
    own = JobFolder.open(path)
    return Job(folder=own, journal=own.open_journal(), supervised=True, entry=entry_of(own))


def _end_together(notices: Notices, company: object) -> None:
    """The chief keeps TensorFlow's cluster: who is done waits until it is done too."""
    from mlflow_resilience.ray.company import Company

    assert isinstance(company, Company)
    if company.is_chief:
        notices.tell(DONE)
    else:
        company.wait_for(DONE)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the cluster's threads have nobody left to talk to
