"""Which of a group's ends counts, from the notices alone."""

from __future__ import annotations

import signal
from pathlib import Path

from mlflow_resilience.core.failure import classify
from mlflow_resilience.core.fault import Fault, Position
from mlflow_resilience.ray.notices import BROKEN, Notices
from mlflow_resilience.ray.root_cause import Reached, root_cause
from mlflow_resilience.recoveries import BUILT_IN

ABORTED = "Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy"
REACHED = Reached(step=40, epoch=1, phase="step", begun=True)


def _broken(notices: Notices, rank: int, exception: str, message: str) -> None:
    fault = Fault(exception=exception, message=message, phase="step", position=Position(global_step=40))
    notices.tell_of_rank(rank, "fault", fault=fault.to_dict())
    notices.tell_of_rank(rank, "end", code=BROKEN)


def test_a_death_is_the_cause_of_the_collective_that_was_aborted(tmp_path: Path) -> None:
    """Though the abort was noticed first, and written down first."""
    notices = Notices(tmp_path)
    _broken(notices, 0, "UnavailableError", ABORTED)
    notices.tell_of_rank(1, "end", code=-signal.SIGKILL)
    fault = root_cause(notices, 2, REACHED)
    assert (fault.signal, fault.global_step, fault.phase) == (signal.SIGKILL, 40, "step")
    assert fault.message.startswith("rank 1 of 2 on ")
    assert classify(fault, BUILT_IN).failure_class == "process_death"


def test_who_was_ended_by_us_is_no_cause(tmp_path: Path) -> None:
    """A rank that waits for one that is gone is killed, and that counts for nothing."""
    notices = Notices(tmp_path)
    notices.tell_of_rank(0, "end", code=-signal.SIGKILL, by_us=True)
    _broken(notices, 1, "ResourceExhaustedError", "OOM when allocating tensor with shape[8192,8192] and type float")
    fault = root_cause(notices, 2, REACHED)
    assert fault.exception == "ResourceExhaustedError" and fault.message.startswith("rank 1 of 2 on ")


def test_the_earliest_of_two_faults_is_the_cause(tmp_path: Path) -> None:
    """Each rank may have one of its own."""
    notices = Notices(tmp_path)
    _broken(notices, 1, "OSError", "the first")
    _broken(notices, 0, "ValueError", "the second")
    assert root_cause(notices, 2, REACHED).exception == "OSError"


def test_a_halted_rank_is_a_hang(tmp_path: Path) -> None:
    """With the seconds for which it stood still."""
    notices = Notices(tmp_path)
    notices.tell_of_rank(1, "end", code=-signal.SIGKILL, silent_seconds=31.0)
    fault = root_cause(notices, 2, REACHED)
    assert (fault.exception, fault.silent_seconds) == ("Hang", 31.0)
    assert classify(fault, BUILT_IN).failure_class == "hang"


def test_an_abort_alone_is_a_lost_worker(tmp_path: Path) -> None:
    """Where nobody knows what became of the other rank, its loss is the fault."""
    notices = Notices(tmp_path)
    _broken(notices, 0, "UnavailableError", ABORTED)
    assert classify(root_cause(notices, 2, REACHED), BUILT_IN).failure_class == "worker_lost"


def test_what_ray_says_counts_where_no_rank_has_left_a_word(tmp_path: Path) -> None:
    """A worker of Ray's own was lost, with all that it had started."""
    fault = root_cause(Notices(tmp_path), 2, REACHED, "WorkerGroupError: (1) killed by the OOM killer, (2) node died")
    assert "WorkerGroupError" in fault.message and "OOM" not in fault.message
    assert classify(fault, BUILT_IN).failure_class == "worker_lost"
