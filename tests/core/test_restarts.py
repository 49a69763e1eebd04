"""Where the time of a restart went, folded from marks."""

from __future__ import annotations

import pytest

from mlflow_resilience.spool.restarts import MOMENTS, Restarts


def fold(*marks: tuple[str, float]) -> Restarts:
    restarts = Restarts()
    for name, at in marks:
        restarts.add({"kind": "mark", "mark": name, "at": at, "attempt": 3})
    return restarts


def test_the_parts_are_what_lies_between_the_moments_and_sum_to_the_whole() -> None:
    at = [0.0, 0.1, 1.1, 1.4, 8.0, 9.5, 10.0, 14.25]
    (restart,) = fold(*zip(MOMENTS, at, strict=True)).all
    assert restart.done and restart.attempt == 3
    assert list(restart.parts) == ["detection", "wait", "start", "import", "build", "restore", "trace"]
    assert restart.parts["import"] == pytest.approx(6.6)
    assert restart.seconds == pytest.approx(14.25)


def test_a_moment_that_never_came_adds_its_part_to_the_following_one() -> None:
    (restart,) = fold(("ended", 0.0), ("judged", 1.0), ("started", 2.0), ("tracing", 9.0), ("stepped", 10.0)).all
    assert restart.parts == {"detection": 1.0, "wait": 1.0, "restore": 7.0, "trace": 1.0}


def test_a_process_that_ends_before_its_first_step_leaves_its_time_where_it_was_spent() -> None:
    first, second = fold(
        ("started", 0.0), ("running", 1.0), ("ended", 5.0), ("judged", 5.5), ("started", 6.0), ("stepped", 9.0)
    ).all
    assert (first.attempt, first.done, first.parts) == (0, False, {"start": 1.0, "import": 4.0})
    assert (second.done, second.seconds) == (True, 4.0)


def test_what_comes_after_the_first_step_is_nobodys() -> None:
    (restart,) = fold(("started", 0.0), ("stepped", 2.0), ("restoring", 3.0), ("stepped", 4.0)).all
    assert restart.seconds == 2.0


def test_a_script_that_passes_fits_by_is_still_building() -> None:
    (restart,) = fold(("started", 0.0), ("restoring", 1.0), ("restoring", 5.0), ("tracing", 6.0), ("stepped", 7.0)).all
    assert restart.parts == {"build": 5.0, "restore": 1.0, "trace": 1.0}
