"""What goes on around a training for as long as it runs: heartbeat, memory readings, signals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from mlflow_resilience import telemetry
from mlflow_resilience.job import Job
from mlflow_resilience.spool.heartbeat import Heartbeat
from mlflow_resilience.stop import StopRequests


@contextlib.contextmanager
def surroundings(job: Job) -> Iterator[tuple[Heartbeat, StopRequests]]:
    """The heartbeat of a fit, and whoever asks it to stop."""
    heart = Heartbeat(job.folder.heartbeat)
    stop = StopRequests(passed_on=job.asked_by)
    monitor = telemetry.Monitor(lambda points: _tell_gauges(job, points), started=job.started)
    try:
        with monitor, stop.listening():
            yield heart, stop
    finally:
        heart.leave("script")  # what comes next is not ours to watch
        heart.close()


def beating(job: Job, heart: Heartbeat) -> Callable[[str, int, int], None]:
    """Called with phase, step and epoch: the heart beats, and who waits for a restart's parts is told."""
    marks = job.marks
    if marks is None:
        return heart.beat

    def beat(phase: str, step: int, epoch: int) -> None:
        heart.beat(phase, step, epoch)
        marks.beat(phase)

    return beat


def _tell_gauges(job: Job, points: list[Any]) -> None:
    job.journal.append("gauges", points=[list(point) for point in points])
