"""The process that the supervisor starts for ``engine=ray``: a group of ranks from its start to its end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.errors import UsageError
from mlflow_resilience.job import Job, attempt, join
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.ray import launching, output
from mlflow_resilience.ray.notices import Notices
from mlflow_resilience.ray.root_cause import Reached, root_cause
from mlflow_resilience.recoveries import known
from mlflow_resilience.spool.heartbeat import Heartbeat
from mlflow_resilience.supervisor.hang import parse_beat, read_beat

#: Seconds for which a rank may be halted: fewer than a step may take, after which nobody knows which rank it was.
HALTED_SETTING, HALTED_SECONDS = "MLFLOW_RESILIENCE_HALTED_SECONDS", 20.0

FINISHED, FAILED, USAGE, PREEMPTED, NEW_PROCESS = 0, 1, 2, 75, 76

_PASSED_ON = ("MLFLOW_RESILIENCE_", "PYTHON")  # to ranks on other machines; secrets of MLflow's are not among these


def main() -> int:
    """Run one group: the exit code is a worker's."""
    job = join()
    if job is None:
        print("mlflow_resilience.ray.driver: started without a job; use mlflow-resilience train", file=sys.stderr)
        return USAGE
    try:
        return _run(job, Parameters.from_dict(job.entry.get("config") or {}))
    except UsageError as error:
        print(f"mlflow-resilience: {error}", file=sys.stderr)
        return USAGE
    finally:
        job.journal.close()


def _run(job: Job, parameters: Parameters) -> int:
    assert job.marks is not None
    job.marks.tell("running")
    with contextlib.closing(Heartbeat(job.folder.heartbeat)) as heart:
        heart.beat("start", 0)
        launching.check()
        address = launching.start_ray(parameters.num_workers)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, _left_to_the_ranks)
    folder = job.folder.path / "ranks" / f"{attempt():03d}-{os.getpid()}"
    folder.mkdir(parents=True)
    size = parameters.num_workers
    config = _config(folder, address)
    with output.followed([folder / output.name_of(rank) for rank in range(size)]):
        told = launching.run_group(config, size, job.folder.path / "ray")
    try:
        return _after(job, parameters, Notices(folder), told)
    finally:
        for rank in range(1, size):
            shutil.rmtree(folder / f"rank-{rank}", ignore_errors=True)


def _left_to_the_ranks(number: int, frame: object) -> None:
    """The ranks see in the job's folder that it is to end, and agree on the step."""


def _config(folder: Path, address: str | None) -> dict[str, Any]:
    environ = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    limit = float(os.environ.get(HALTED_SETTING) or HALTED_SECONDS)
    return {
        "folder": str(folder),
        "cwd": os.getcwd(),
        "environ": environ,
        "address": address,
        "halted_seconds": limit,
    }


def _after(job: Job, parameters: Parameters, notices: Notices, told: str) -> int:
    size = parameters.num_workers
    codes = [int(end["code"]) for end in notices.all_ranks("end", size)]
    for usage in notices.all_ranks("usage", size):
        print(f"mlflow-resilience: {usage['text']}", file=sys.stderr)
        return USAGE
    if len(codes) == size and set(codes) == {FINISHED}:
        return FINISHED
    if len(codes) == size and set(codes) <= {FINISHED, PREEMPTED}:
        return PREEMPTED
    return _judge(job, parameters, notices, told)


def _judge(job: Job, parameters: Parameters, notices: Notices, told: str) -> int:
    """The earliest fault of the group is judged, once; what followed from it is not."""
    log, policy = job.log(), parameters.rules()
    beat = parse_beat(read_beat(job.folder.heartbeat))
    reached = Reached(begun=log.is_open) if beat is None else Reached(
        step=max(beat.step, log.step), epoch=beat.epoch or 0, phase=beat.phase, begun=log.is_open
    )  # fmt: skip
    fault = root_cause(notices, parameters.num_workers, reached, told)
    decision = Judge(job.journal, policy, known(policy), log).judge(fault, Capabilities(new_process=True))
    return {"continue": NEW_PROCESS, "leave": PREEMPTED}.get(decision.verdict, FAILED)


if __name__ == "__main__":
    sys.exit(main())
