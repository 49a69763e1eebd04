"""The report of a job that still runs: made by the sender's process, and not more often than every 30 seconds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.edges.tracking_tools import Job, until

SECONDS = 30.0


@pytest.mark.full
def test_it_is_refreshed_while_the_job_runs(database: Path, place: Path) -> None:
    """Whoever trains (here: this process) has no part in it."""
    job = Job(place / "running", f"sqlite:///{database}")
    began = time.time()
    job.attempt(1)
    job.points(1, 1, 40)
    job.fault(1, 1, 30, in_place=True)
    job.start_sender()
    page = place / "artifacts" / job.run_id() / "artifacts" / "resilience" / "report.html"
    until(page.exists, 120, "the first report")
    first = page.stat().st_mtime
    assert "Running: step 40, attempt 1, 1 fault so far" in page.read_text()
    assert first - began >= SECONDS
    job.fault(1, 2, 40, in_place=True)
    until(lambda: "2 faults so far" in page.read_text(), 120, "the next one")
    assert page.stat().st_mtime - first >= SECONDS - 5, "counted from when making the first one began"
    job.end_attempt(1, "FINISHED", 40)
    job.end("recovered")
    assert job.finish() == 0
    assert "Recovered: finished in 1 attempt after 2 faults" in page.read_text()
