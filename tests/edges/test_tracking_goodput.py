"""Where the wall clock went: the parts sum to it, and each is what it says, over faults, a kill and a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.spool.folder import jobs
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.spool.wall_clock import PARTS, WallClock
from mlflow_resilience.summary import elapsed, goodput, time_parts
from tests.edges.main_job import Ended, train

RECIPE = Path(__file__).with_name("timed_recipe.py")
STEP, DATA, STEPS, EPOCHS = 0.04, 0.1, 40, 3  # as in the recipe


def fold(*entries: dict[str, Any]) -> WallClock:
    clock = WallClock()
    for entry in [{"kind": "job", "time": 0.0, "started": 0.001}, *entries]:
        clock.add(entry)
    return clock


def mark(name: str, at: float) -> dict[str, Any]:
    return {"kind": "mark", "mark": name, "at": at, "time": at}


def told(time: float, pid: int, **parts: float) -> dict[str, Any]:
    return {"kind": "times", "time": time, "pid": pid, **parts}


def test_a_stopwatch_that_is_read_often_counts_once() -> None:
    """Its readings are sums since it began, whichever attempt they are told of; a second fit's begins anew."""
    first = [told(12.0, 7, startup=2.0, productive=10.0), told(20.0, 7, startup=2.0, productive=18.0)]
    second = told(40.0, 7, startup=1.0, productive=9.0)
    clock = fold(*first, second, {"kind": "job_ended", "time": 40.0, "outcome": "clean"})
    parts = clock.parts()
    assert parts["productive"] == pytest.approx(18 + 9, abs=0.01)
    assert parts["startup"] == pytest.approx(2 + 10 + 1, abs=0.01), "what a script does between its fits is no training"
    assert sum(parts.values()) == pytest.approx(40, abs=0.01)


def test_a_death_its_judgment_its_wait_and_the_next_start() -> None:
    """From the last reading to the death it trained; nothing runs until the judgment; then the wait, and the start."""
    before = [
        mark("started", 1.0),
        mark("restoring", 5.0),
        told(10.0, 7, productive=4.5),
        {"kind": "points", "time": 14},
    ]
    death = [mark("ended", 15.0), mark("judged", 17.0), mark("started", 20.0), mark("restoring", 26.0)]
    after = [told(40.0, 8, restore=2.0, replayed=5.0, productive=6.0), {"kind": "attempt_ended", "status": "FINISHED"}]
    end = {"kind": "job_ended", "time": 41.0, "outcome": "recovered"}
    clock = fold({"kind": "checkpoint", "time": 9.0}, *before, *death, *after, end)
    parts = {part: round(seconds, 1) for part, seconds in clock.parts().items() if seconds}
    assert parts == {
        "startup": 5.0 + 6.0,
        "productive": 4.5 + 5.0 + 6.0,
        "idle": 2.0,
        "backoff": 3.0,
        "restore": 0.5 + 1.0 + 2.0,
        "replayed": 5.0,
        "save_stall": 1.0,
    }
    assert clock.twice == 0.0


def test_what_a_job_that_did_not_finish_had_beyond_its_checkpoint_is_to_be_done_again() -> None:
    """So that over a lineage no step is productive twice."""
    lost = {"kind": "lost", "steps": 4, "seconds": 3.0}
    clock = fold(told(10.0, 7, productive=10.0), lost, {"kind": "job_ended", "time": 10.0, "outcome": "preempted"})
    assert (clock.parts()["productive"], clock.parts()["replayed"]) == (pytest.approx(7, abs=0.01), 3.0)


@pytest.fixture(scope="module")
def lineage(tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """A fault in the step, a kill, a stop; and the same command once more."""
    folder = tmp_path_factory.mktemp("lineage")
    options = [str(RECIPE), "--epochs", str(EPOCHS), "--fault", "raise@50,kill@70,term@100"]
    return [train(folder, *options, "--checkpoint-every", "20steps", timeout=300) for _ in range(2)]


@pytest.mark.full
def test_the_parts_of_a_real_job_sum_to_its_wall_clock(lineage: list[Ended]) -> None:
    """Within 1 %, with nothing counted twice; and the ones that are known are what they must be."""
    assert [ended.code for ended in lineage] == [75, 0], lineage[0].output + lineage[1].output
    second, first = (JobRecord.read(folder.journal) for folder in jobs(lineage[0].folder / ".mlflow_resilience"))
    for record in (first, second):
        parts = time_parts(record)
        assert sum(parts.values()) == pytest.approx(elapsed(record), rel=0.01)
        assert record.wall_clock.twice < 0.01 * elapsed(record)
        assert set(parts) <= set(PARTS)
    _check_first(first)
    done = STEPS * EPOCHS - int((second.resumed or {})["from_step"])
    assert STEP * done < time_parts(second)["productive"] < 2.5 * STEP * done + 2


def _check_first(record: JobRecord) -> None:
    marks = record.faults[0].memory["high_water"]
    assert marks["process_rss_mb"] >= marks["worker_rss_mb"] > 100, "the most that was used up to the fault"
    parts = time_parts(record)
    seen = sum(attempt.last_step - attempt.step for attempt in record.attempts)
    trained = parts["productive"] + parts["replayed"]
    assert STEP * (seen - 4) < trained < 2.5 * STEP * seen + 2, "a step costs more than its sleep"
    again = sum(int(entry.get("steps") or 0) for entry in record.lost)
    assert parts["replayed"] > 0.7 * STEP * again
    assert 0.7 * (DATA - STEP) * seen < parts["data_wait"] < 1.3 * DATA * seen
    delays = sum(float((fault.decision or {}).get("delay") or 0.0) for fault in record.faults)
    assert parts.get("backoff", 0.0) == pytest.approx(delays, abs=1.0)
    gap = next(each for each in record.restarts.all if each.attempt)
    assert parts["idle"] == pytest.approx(gap.parts["detection"], abs=1.0)
    assert parts["startup"] > sum(gap.parts[part] for part in ("start", "import", "build"))
    assert goodput(record) == pytest.approx(parts["productive"] / elapsed(record), abs=0.01)


@pytest.mark.full
def test_the_tags_of_a_lineage_sum_to_the_time_from_its_first_start_to_its_last_end(lineage: list[Ended]) -> None:
    """What lay between the two jobs is idle."""
    second, first = (JobRecord.read(folder.journal) for folder in jobs(lineage[0].folder / ".mlflow_resilience"))
    newest, _ = lineage[1].jobs()
    tags = newest.data.tags
    whole = (second.ended or 0.0) - first.started
    assert float(tags["resilience.lineage_elapsed_seconds"]) == pytest.approx(whole, rel=0.01)
    parts = {part: float(tags[f"resilience.lineage_{part}_seconds"]) for part in PARTS}
    assert sum(parts.values()) == pytest.approx(whole, rel=0.01)
    assert float(tags["resilience.lineage_goodput"]) == pytest.approx(parts["productive"] / whole, abs=0.01)
    assert newest.data.metrics["resilience/goodput"] == pytest.approx(goodput(second), abs=0.001)
