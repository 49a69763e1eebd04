"""When to save, and what to keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_resilience.core.fault import Position
from mlflow_resilience.core.schedule import Kept, Moment, Retention, Schedule
from mlflow_resilience.errors import UsageError


def at(step: int, *, saved: int = 0, epoch: int = 0, saved_epoch: int = 0, **facts: float | None) -> Moment:
    end = bool(facts.pop("epoch_end", False))
    return Moment(
        position=Position(global_step=step, epoch=epoch),
        saved=Position(global_step=saved, epoch=saved_epoch),
        epoch_end=end,
        **facts,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", Schedule()),
        ("50steps", Schedule("steps", 50)),
        ("1step", Schedule("steps", 1)),
        ("1epoch", Schedule("epochs", 1)),
        ("2 epochs", Schedule("epochs", 2)),
        ("30s", Schedule("seconds", 30)),
        ("1.5seconds", Schedule("seconds", 1.5)),
        ("10m", Schedule("seconds", 600)),
        ("2minutes", Schedule("seconds", 120)),
    ],
)
def test_parse(text: str, expected: Schedule) -> None:
    """Every unit, in its forms."""
    assert Schedule.parse(text) == expected


@pytest.mark.parametrize("text", ["often", "", "0steps", "-1s", "1.5epochs", "50", "steps", "1h"])
def test_parse_refuses(text: str) -> None:
    """What cannot be meant is named, with what can be."""
    with pytest.raises(UsageError, match="50steps"):
        Schedule.parse(text)


def test_every_so_many_steps() -> None:
    """Due when a multiple was passed since the last save, wherever that was."""
    schedule = Schedule.parse("50steps")
    assert not schedule.due(at(49))
    assert schedule.due(at(50))
    assert not schedule.due(at(99, saved=50))
    assert schedule.due(at(101, saved=98)), "a step of several is not missed"
    assert not schedule.due(at(50, saved=50)), "nothing new to save"


def test_every_so_many_epochs() -> None:
    """Due at an epoch's end only."""
    schedule = Schedule.parse("2epochs")
    assert not schedule.due(at(30, epoch=2))
    assert not schedule.due(at(20, epoch=1, epoch_end=True))
    assert schedule.due(at(40, epoch=2, epoch_end=True))
    assert not schedule.due(at(60, saved=40, epoch=3, saved_epoch=2, epoch_end=True))


def test_every_so_many_seconds() -> None:
    """Due by the clock."""
    assert not Schedule.parse("30s").due(at(5, seconds=29.0))
    assert Schedule.parse("30s").due(at(5, seconds=30.0))


def test_auto_costs_a_hundredth() -> None:
    """The first save measures the cost; later ones come no closer than a hundred times it, nor than a second."""
    auto = Schedule()
    assert auto.due(at(1))
    assert not auto.due(at(5, saved=1, cost=0.1, seconds=9.0))
    assert auto.due(at(5, saved=1, cost=0.1, seconds=10.0))
    assert not auto.due(at(5, saved=1, cost=0.0, seconds=0.5))


def test_logged_models() -> None:
    """By themselves once an epoch within the same share of the time; otherwise as asked for."""
    auto = Schedule()
    assert not auto.due_for_logging(at(5, cost=0.1, seconds=100.0))
    assert auto.due_for_logging(at(5, cost=0.1, seconds=100.0, epoch_end=True))
    assert not auto.due_for_logging(at(5, cost=2.0, seconds=100.0, epoch_end=True))
    assert Schedule.parse("5steps").due_for_logging(at(5))


@given(st.floats(0.001, 10), st.lists(st.floats(0.01, 5), min_size=1, max_size=200))
def test_auto_never_costs_more(cost: float, steps: list[float]) -> None:
    """Whatever the steps take, all saves after the first cost at most a hundredth of the time."""
    since, spent, total, step, saved = 0.0, 0.0, 0.0, 1, 1
    for seconds in steps:
        step, since, total = step + 1, since + seconds, total + seconds
        if Schedule().due(at(step, saved=saved, cost=cost, seconds=since)):
            spent, since, saved = spent + cost, 0.0, step
    assert spent <= total / 100 + 1e-9


def kept(step: int, score: float | None = None, *, intact: bool = True, epoch: int = 0, into: int = 1) -> Kept:
    position = Position(global_step=step, epoch=epoch, step=into)
    return Kept(name=f"c{step}", position=position, score=score, intact=intact)


def test_retention_parse() -> None:
    """A number, or names and numbers."""
    assert Retention.parse("5") == Retention(last=5)
    assert Retention.parse("last=2, best=3,every=10") == Retention(last=2, best=3, every=10)


@pytest.mark.parametrize("text", ["none", "", "last=x", "most=3", "0", "last=2;best=1", "-1", "every=0"])
def test_retention_refuses(text: str) -> None:
    """What cannot be meant, or would keep nothing."""
    with pytest.raises(UsageError):
        Retention.parse(text)


def test_what_is_kept() -> None:
    """The last, the best, and the milestones stay; damaged ones go."""
    checkpoints = [
        kept(10, 0.5, epoch=1, into=0),
        kept(20, 0.1),
        kept(30, 0.9, epoch=2, into=0),
        kept(40, float("nan")),
        kept(50, 0.7),
        kept(60, intact=False),
    ]
    assert [each.name for each in Retention(last=1, best=1, every=2).superfluous(checkpoints)] == ["c10", "c40", "c60"]


def test_nothing_goes_where_all_are_damaged() -> None:
    """What cannot be read now may still be all there is."""
    assert Retention().superfluous([kept(1, intact=False), kept(2, intact=False)]) == []


checkpoints = st.lists(
    st.builds(
        kept,
        st.integers(0, 1000),
        st.none() | st.floats(0, 1),
        intact=st.booleans(),
        epoch=st.integers(0, 20),
        into=st.integers(0, 3),
    ),
    unique_by=lambda each: each.name,
    max_size=30,
)


@given(checkpoints, st.builds(Retention, last=st.integers(1, 5), best=st.integers(0, 3), every=st.integers(1, 5)))
def test_newest_intact_and_best_stay(found: list[Kept], retention: Retention) -> None:
    """No plan ever deletes the newest intact checkpoint, nor the best."""
    gone = retention.superfluous(found)
    intact = [each for each in found if each.intact]
    if intact:
        assert max(intact, key=lambda each: each.position) not in gone
    scores = [each.score for each in intact if each.score is not None]
    if scores:
        assert any(each.score == min(scores) and each not in gone for each in intact)
