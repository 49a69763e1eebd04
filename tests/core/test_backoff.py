"""Waits are bounded, never shrink, and depend on nothing but the values given."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_resilience.core.backoff import Backoff
from mlflow_resilience.errors import UsageError

backoffs = st.builds(
    Backoff,
    first_seconds=st.floats(0, 100),
    factor=st.floats(1, 10),
    max_seconds=st.floats(0, 10_000),
    jitter=st.floats(0, 1),
)


def test_doubles_up_to_its_bound() -> None:
    """Without jitter the waits are the plain ones."""
    assert [Backoff(max_seconds=5.0).delay(strikes) for strikes in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


@given(backoffs, st.integers(0, 2000), st.text(max_size=20))
def test_bounded_and_monotone(backoff: Backoff, strikes: int, seed: str) -> None:
    """No wait is longer than the bound, and none is shorter than the one before it."""
    before, delay = backoff.delay(strikes - 1, seed) if strikes else 0.0, backoff.delay(strikes, seed)
    assert before - 1e-9 <= delay <= backoff.max_seconds + 1e-9


@given(backoffs, st.integers(0, 100), st.text(max_size=20))
def test_deterministic(backoff: Backoff, strikes: int, seed: str) -> None:
    """The same values give the same wait."""
    assert backoff.delay(strikes, seed) == backoff.delay(strikes, seed)


def test_jitter_keeps_jobs_out_of_step() -> None:
    """Two jobs do not wait alike."""
    backoff = Backoff(jitter=1.0)
    assert backoff.delay(3, "a") != backoff.delay(3, "b")


@pytest.mark.parametrize("wrong", [{"first_seconds": -1}, {"max_seconds": -1}, {"factor": 0.5}, {"jitter": 2}])
def test_impossible_values_are_refused(wrong: dict[str, Any]) -> None:
    """A wrong value is named at once, not when the first fault comes."""
    with pytest.raises(UsageError):
        Backoff(**wrong)
