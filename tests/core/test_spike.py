"""A loss is out of its history when nothing in the history comes near it, and only then."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_resilience.core.spike import ENOUGH, LossHistory


def history(*losses: float) -> LossHistory:
    made = LossHistory()
    for loss in losses:
        made.add(loss)
    return made


def test_a_jump_far_beyond_the_highest_loss_is_one() -> None:
    """From 2.3 down to 0.1: the start of the training counts as seen."""
    falling = [2.3 * 0.9**step + 0.1 for step in range(100)]
    assert history(*falling).jumps(100.0)
    assert not history(*falling).jumps(40.0)


def test_too_short_a_history_judges_nothing() -> None:
    """The first steps of a training overshoot."""
    assert not history(*[1.0] * (ENOUGH - 1)).jumps(1e9)
    assert history(*[1.0] * ENOUGH).jumps(1e9)


def test_a_converged_model_may_meet_a_hard_example() -> None:
    """Against losses of next to nothing a mislabelled example is no jump."""
    assert not history(*[1e-7] * 500).jumps(19.0)
    assert not history(*[0.0] * 500).jumps(19.0)
    assert history(*[0.0] * 500).jumps(21.0)


def test_a_loss_below_zero_is_judged_by_its_distance() -> None:
    """A log-likelihood may be anything; what counts is how far it varies."""
    falling = [-100.0 - step for step in range(500)]
    assert not history(*falling).jumps(5000.0)
    assert history(*falling).jumps(1e5)


def test_only_upwards() -> None:
    """A loss that falls, however far, is what training is for."""
    assert not history(*[1e6] * 50).jumps(-1e9)


def test_the_history_forgets_no_height() -> None:
    """A training that began at a million does not alarm when it meets a thousandth of that again."""
    made = history(1e6, *[1.0] * 10_000)
    assert not made.jumps(1e6)


@pytest.mark.parametrize("tail", ["exponential", "lognormal", "rare"])
def test_heavy_tails_raise_no_alarm(tail: str) -> None:
    """A hundred trainings of a thousand steps, of losses as batches of one record have them."""
    for seed in range(100):
        drawn = random.Random(seed)
        draw = {
            "exponential": lambda drawn=drawn: drawn.expovariate(1.0),
            "lognormal": lambda drawn=drawn: drawn.lognormvariate(0.0, 1.0),
            "rare": lambda drawn=drawn: 5.0 if drawn.random() < 0.01 else 1e-6,
        }[tail]
        made = LossHistory()
        for _ in range(1000):
            loss = draw()
            assert not made.jumps(loss), (seed, loss)
            made.add(loss)


@given(st.lists(st.floats(-1e6, 1e6), min_size=ENOUGH, max_size=80), st.floats(-1e9, 1e9))
def test_what_was_seen_before_is_no_jump(losses: list[float], other: float) -> None:
    """Whatever is below the highest loss is in the history; and the distance grows with the loss."""
    made = history(*losses)
    assert not made.jumps(max(losses))
    assert made.distance(other + 1.0) >= made.distance(other)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=200), st.floats(-1e9, 1e9))
def test_stored_and_read_again_it_judges_the_same(losses: list[float], loss: float) -> None:
    """What is not finite is never stored; the rest fits into JSON, and is bounded."""
    made = history(*losses)
    text = json.dumps(made.to_dict(), allow_nan=False)
    assert len(text) < 4000
    again = LossHistory.from_dict(json.loads(text))
    assert again.distance(loss) == made.distance(loss)
    assert again.to_dict() == made.to_dict()


def test_nothing_stored_is_an_empty_history() -> None:
    """A checkpoint from before there was one."""
    assert LossHistory.from_dict({}).to_dict() == LossHistory().to_dict()
    assert LossHistory().distance(math.nan) == 0.0
