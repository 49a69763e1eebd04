"""Each case of a resume that went wrong for somebody has its test: named by its id here, or told where it is."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
IDS = [case["id"] for case in json.loads((TESTS / "data" / "resume.json").read_text())]

#: Those that are about more than the training state.
ELSEWHERE = {
    "R001": "edges/test_tracking_projection.py::test_a_preempted_job",
    "R003": "edges/test_main_job.py::test_without_recovery_the_fault_is_logged_and_the_run_failed",
    "R005": "edges/test_tracking_resume.py::test_going_on_in_the_same_run",
    "R007": "edges/test_tracking_delivery.py::test_attempts_are_children_with_their_own_points",
    "R009": "edges/test_tracking_sender.py::test_the_callers_run_is_adopted",
    "R011": "training/test_kinds.py::test_interrupted_in_mid_epoch_it_ends_as_undisturbed",
    "R025": "edges/test_tracking_delivery.py::test_curve_has_each_step_once",
    "R027": "edges/test_tracking_resume.py::test_going_on_in_the_same_run",
    "R029": "edges/test_tracking_resume.py::test_the_newest_that_did_not_finish",
    "R031": "core/test_loop.py::test_never_acts_while_handling",
    "R039": "core/test_supervisor_parts.py::test_every_phase_of_a_worker_has_a_floor",
    "R041": "edges/test_tracking_resume.py::test_a_later_job_that_resumed_it_stands_for_it",
    "R063": "edges/test_tracking_resume.py::test_what_auto_does_not_resume",
    "R069": "core/test_loop.py::test_a_spent_recovery_is_raised_from_the_last_fault",
    "R071": "core/test_policy.py::test_device_memory_splits_in_place_then_grows_in_a_new_process",
    "R073": "core/test_policy.py::test_memory_under_jit_goes_to_a_new_process",
    "R075": "training/test_kinds.py::test_interrupted_in_mid_epoch_it_ends_as_undisturbed",
    "R079": "core/test_supervisor_stop.py::test_a_worker_that_ignores_the_request_is_killed_after_the_grace_period",
}


def names_in(path: Path) -> list[str]:
    body = ast.parse(path.read_text()).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


NAMED = {
    f"R{number}"
    for name in names_in(TESTS / "training" / "test_resume_cases.py")
    for number in re.findall(r"r(\d{3})", name)
}


@pytest.mark.parametrize("case", IDS)
def test_the_case_is_tested(case: str) -> None:
    if case in NAMED:
        return
    path, _, name = ELSEWHERE[case].partition("::")
    assert name in names_in(TESTS / path)
