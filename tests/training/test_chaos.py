"""ckpt-chaos: ended at any change of a file, our `fit` resumes from the newest whole checkpoint to the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.training import children

pytest.importorskip("ckpt_chaos")
from ckpt_chaos import byo
from ckpt_chaos.invariants import ResumeOutcome, classify
from ckpt_chaos.runner import _events

MODES = ("before", "torn", "term")


@dataclass(frozen=True)
class Undisturbed:
    events: list[tuple[int, str, str, bool]]
    outcome: dict[str, Any]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("reference")
    log = tmp_path_factory.mktemp("log") / "events"
    assert children.run("tests.training.chaos:armed", folder, log=str(log)) == 0
    return Undisturbed(_events(log), children.facts(folder)["outcome"])


def verdicts(undisturbed: Undisturbed, folder: Path, most: int) -> dict[str, str]:
    """The harness's verdict on each of ``most`` points, spread evenly over all events and modes."""
    found = {}
    for number, (crash_at, mode) in enumerate(byo._select(undisturbed.events, most, MODES)):
        out, log = folder / f"{number}", folder / f"{number}.log"
        code = children.run("tests.training.chaos:armed", out, log=str(log), crash_at=crash_at, mode=mode)
        point = f"{crash_at} {undisturbed.events[crash_at - 1][1:3]} {mode}"
        if code == 0:  # asked to end while its last state was written: no step is left that could be stopped
            assert mode == "term", f"nothing happened at {point}"
            assert children.facts(out)["outcome"] == undisturbed.outcome, point
            found[point] = "PASS"
            continue
        again = children.run("tests.training.chaos:resumed", out)
        told = children.facts(out)
        outcome = ResumeOutcome(
            raised=None if again == 0 else f"ExitCode{again}",
            resumed_from_step=told["from"],
            newest_complete_step=told["newest"],
            weights_diff=0.0 if told["outcome"] == undisturbed.outcome else 1.0,
        )
        found[point] = classify(outcome)
    return found


def test_a_few_points_of_each_mode(undisturbed: Undisturbed, tmp_path: Path) -> None:
    found = verdicts(undisturbed, tmp_path, most=3)
    assert len(found) == 3
    assert set(found.values()) == {"PASS"}, found


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_points_all_over_the_training(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """Twenty of each mode."""
    found = verdicts(undisturbed, tmp_path, most=60)
    assert len(found) == 60
    assert set(found.values()) == {"PASS"}, {point: each for point, each in found.items() if each != "PASS"}
