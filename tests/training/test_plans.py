"""Any number of kills at any steps, in any order of ways, leaves no trace: drawn by hypothesis."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.training.killing import WAYS, Kill
from tests.training.test_identity import reference, train

__all__ = ["reference"]

steps = st.integers(min_value=1, max_value=30).map(lambda step: f"step {step}")
plans = st.lists(st.builds(Kill, steps, st.sampled_from(WAYS)), min_size=2, max_size=4, unique_by=lambda k: k.point)
unhurried = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def leaves_no_trace(reference: Any, kills: list[Kill]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        codes, ended = train(Path(folder), "slices", kills, settled=False)
    assert codes[-1] == 0
    assert ended == reference("slices"), kills


@settings(unhurried, max_examples=1)
@given(kills=plans)
def test_a_plan_of_kills(reference: Any, kills: list[Kill]) -> None:
    leaves_no_trace(reference, kills)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(unhurried, max_examples=25)
@given(kills=plans)
def test_many_plans_of_kills(reference: Any, kills: list[Kill]) -> None:
    leaves_no_trace(reference, kills)
