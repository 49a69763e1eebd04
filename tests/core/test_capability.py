"""Where training can go on: the mildest that is asked for, possible and sound."""

from __future__ import annotations

import pytest

from mlflow_resilience.core.action import NewProcess, Quarantine, RetryStep, RollBack
from mlflow_resilience.core.capability import Capabilities, Way, way
from mlflow_resilience.core.failure import Rung
from mlflow_resilience.core.fault import Fault

HERE = Fault(exception="E")
GONE = Fault(exception="SIGKILL", signal=9)
ALL = Capabilities(in_place=True, new_process=True)
LOOP = Capabilities()
SUPERVISOR = Capabilities(new_process=True)
NOTHING = Capabilities(checkpoint=False)

STEP, BACK, NEW = Rung((RetryStep(),)), Rung((RollBack(),)), Rung((NewProcess(),))
EITHER = Rung((NewProcess(or_roll_back=True),))
RECORDS = Rung((Quarantine(),))


@pytest.mark.parametrize(
    ("rung", "fault", "can", "condemned", "expected"),
    [
        (STEP, HERE, ALL, False, Way("in_place")),
        (STEP, HERE, LOOP, False, Way("roll_back")),
        (STEP, HERE, ALL, True, Way("new_process")),
        (STEP, HERE, LOOP, True, Way(basis="no_new_process")),
        (STEP, GONE, SUPERVISOR, False, Way("new_process")),
        (STEP, HERE, NOTHING, False, Way(basis="no_checkpoint")),
        (BACK, HERE, ALL, False, Way("roll_back")),
        (BACK, HERE, NOTHING, False, Way(basis="no_checkpoint")),
        (BACK, GONE, SUPERVISOR, False, Way("new_process")),
        (NEW, HERE, ALL, False, Way("new_process")),
        (NEW, HERE, LOOP, False, Way(basis="no_new_process")),
        (EITHER, HERE, LOOP, False, Way("roll_back", "no_new_process")),
        (EITHER, HERE, LOOP, True, Way(basis="no_new_process")),
        (EITHER, HERE, NOTHING, False, Way(basis="no_new_process")),
        (RECORDS, HERE, ALL, False, Way("in_place")),
        (RECORDS, HERE, LOOP, False, Way("roll_back")),
    ],
)
def test_way(rung: Rung, fault: Fault, can: Capabilities, condemned: bool, expected: Way) -> None:
    """Each kind of rung, where it can be done and where it cannot."""
    assert way(rung, fault, can, condemned=condemned) == expected
