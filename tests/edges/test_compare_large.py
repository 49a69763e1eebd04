"""A store with 200 jobs of 20 attempts and 2,000 points per attempt: only what is needed is read."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.cli.store import client_of
from tests.edges.compare_store import START, Store

JOBS, ATTEMPTS, EPOCHS, STEPS = 200, 20, 20, 96  # of an attempt: 20 x (96 + 4) points
KEYS = ("loss", "val_loss", "accuracy", "val_accuracy")

#: The points of all runs, one metric at a time, in the order of the table's own index.
POINTS = """
insert into metrics (key, value, timestamp, step, run_uuid, is_nan)
with recursive point(n) as (select 1 union all select n + 1 from point where n < :points)
select :key, 1.0 / (first + n * :width), :start + first + n * :width, first + n * :width, run_uuid, 0
from point join written on written.job = :job order by 3, 4, 5
"""
LATEST = """
insert into latest_metrics (key, value, timestamp, step, run_uuid, is_nan)
select :key, 1.0 / (first + :points * :width), :start, first + :points * :width, run_uuid, 0
from written where job = :job
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("large"))
    jobs = []
    with sqlite3.connect(store.database) as connection:
        connection.execute("create table written (run_uuid text, first integer, job integer)")
    for number in range(JOBS):
        jobs.append(_job(store, number))
    store.close()
    with sqlite3.connect(store.database, isolation_level=None) as connection:
        for pragma in ("synchronous = off", "journal_mode = off", "cache_size = -200000"):
            connection.execute(f"pragma {pragma}")
        named = "select name, sql from sqlite_master where type = 'index' and tbl_name = 'metrics' and sql is not null"
        indexes = connection.execute(named).fetchall()
        for name, _ in indexes:  # made again at the end, which is quicker
            connection.execute(f"drop index {name}")
        connection.execute("begin")
        for job, attempts in jobs:
            firsts = [(run, place * EPOCHS * 100, 0) for place, run in enumerate(attempts)]
            connection.executemany("insert into written values (?, ?, ?)", [(job, 0, 1), *firsts])
        for key in ("batch/loss", *KEYS):
            for is_job in (0, 1):
                steps, width = (STEPS, 1) if key == "batch/loss" else (1, 100)
                points = EPOCHS * steps * (ATTEMPTS if is_job else 1)
                given = {"key": key, "points": points, "width": width, "start": START, "job": is_job}
                connection.execute(POINTS, given)
                connection.execute(LATEST, given)
        for _, text in indexes:
            connection.execute(text)
        connection.execute("commit")
        connection.execute("drop table written")
    yield store
    store.database.unlink()


def _job(store: Store, number: int) -> tuple[str, list[str]]:
    lines = {f"attempt.{each}": f"unknown (RuntimeError) at step {each * 2000}" for each in range(1, ATTEMPTS + 1)}
    outcome = "failed" if number % 4 == 0 else "recovered"
    job = store.job(f"job {number}", outcome, attempts=ATTEMPTS, faults=19, curves={}, digest=f"d{number % 5}",
                    failure_classes="unknown,host_oom", params={"seed": number}, **lines)  # fmt: skip
    tags = {"resilience.failure_class": "unknown", "resilience.exception_message": "boom"}
    return job, [store.attempt(job, each, status="FAILED", tags=tags) for each in range(1, ATTEMPTS + 1)]


@pytest.mark.full
@pytest.mark.timeout(900)
def test_compare_and_report_are_quick(large: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    from mlflow_resilience.cli.comparing import compare
    from mlflow_resilience.report import render
    from mlflow_resilience.tracking.retelling import retell

    with client_of(large.uri) as (client, uri):
        first: Any = client.search_runs([large.experiment], "tags.`resilience.outcome` = 'failed'", max_results=1)[0]
        started = time.monotonic()
        made = compare(client, uri, [], "jobs", [])
        compared = time.monotonic()
        page = render(retell(client, first))
        reported = time.monotonic()
    assert len(made.runs) == JOBS and len(made.pairs) == JOBS - 1
    assert len(made.page.encode()) < 1_000_000 and len(page.encode()) < 1_000_000
    print(f"compare {compared - started:.1f} s, report {reported - compared:.1f} s")
    assert compared - started < 10
    assert reported - compared < 5
