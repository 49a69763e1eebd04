"""What is done between attempts: memory given back and compared, fewer pieces tried again."""

from __future__ import annotations

import pytest

from mlflow_resilience.core.attempt import Settings
from mlflow_resilience.training.growing import Growth
from mlflow_resilience.training.memory import Memory


@pytest.mark.parametrize(
    ("resident", "grows"),
    [
        ([700.0, 500.0, 900.0, 620.0], True),
        ([700.0, 500.0, 900.0, 590.0], False),
        ([7000.0, 5000.0, 9000.0, 5400.0], False),
        ([700.0, 500.0, 900.0, 400.0], False),
    ],
    ids=["more", "less than 100 MB more", "less than a tenth more", "less"],
)
def test_a_retry_with_clearly_more_memory_than_the_one_before(resident: list[float], grows: bool) -> None:
    """Over a tenth and over 100 MB more, both; the first retry has none to be held against."""
    readings = iter(resident)
    memory = Memory(lambda: {"worker_rss_mb": next(readings)})
    first, second = memory.release(), memory.release()
    assert (first.before_mb, first.after_mb, first.grows) == (
        700.0 if resident[0] < 1000 else 7000.0,
        resident[1],
        False,
    )
    assert second.grows is grows
    assert f"began with {resident[1]:.0f} MB" in str(second)


def test_each_retry_is_held_against_the_one_before() -> None:
    """Not against the first: a process may settle at a higher level."""
    readings = iter([0.0, 500.0, 0.0, 620.0, 0.0, 640.0])
    memory = Memory(lambda: {"worker_rss_mb": next(readings)})
    assert [memory.release().grows for _ in range(3)] == [False, True, False]


def test_where_memory_cannot_be_read_nothing_grows() -> None:
    """Another system has no such figure."""
    memory = Memory(dict)
    assert [memory.release().grows for _ in range(2)] == [False, False]


def test_half_as_many_pieces_after_enough_clean_steps() -> None:
    """Counted from the last fault; and never twice."""
    growth, settings = Growth(clean_steps=200), Settings(accumulation=8)
    growth.disturbed(100)
    assert growth.due(settings, 299) is None
    growth.disturbed(150)
    assert growth.due(settings, 349) is None
    fewer = growth.due(settings, 350)
    assert fewer == Settings(accumulation=4, grown_back=True)
    assert growth.due(fewer, 10_000) is None


def test_a_whole_batch_does_not_grow() -> None:
    """An undisturbed training is left alone."""
    assert Growth(clean_steps=1).due(Settings(), 10_000) is None
