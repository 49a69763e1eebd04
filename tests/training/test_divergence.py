"""Divergence where nothing is raised: gradients that are not finite, and losses out of their history."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training import children
from tests.training.diverging import NORM, points
from tests.training.fits import entries

FAST = ["dense", "half_precision"]
FULL = ["jit", "clipped", "eager", "embedded", "frozen", "three_at_once", "two_optimizers"]
MODELS = ["dense", "clipped", "embedded", "half_precision", "two_optimizers", "hasty", "single"]


def trained(folder: Path, target: str, **arguments: Any) -> Any:
    assert children.run(f"tests.training.diverging:{target}", folder, **arguments) == 0, children.output(folder)
    return children.facts(folder)


def of(folder: Path, kind: str, **fields: Any) -> list[dict[str, Any]]:
    found = [entry for entry in entries(folder) if entry["kind"] == kind]
    return [entry for entry in found if all(entry.get(name) == value for name, value in fields.items())]


def are_measured(facts: dict[str, Any]) -> None:
    """Every kind ends bit for bit as plain `fit`, and each norm is that of the gradient at its step."""
    for kind, found in facts.items():
        assert found["equal"], kind
        assert found["faults"] == [], kind
        if kind == "frozen":
            assert found["norms"] == []
            continue
        assert {step for step, _ in found["norms"]} <= set(found["steps"]), kind
        if kind != "half_precision":
            assert len(found["norms"]) == len(found["steps"]), kind
        assert all(math.isfinite(norm) for _, norm in found["norms"]), kind
        for step, norm in found["norms"] if found["seen"] else []:
            np.testing.assert_allclose(norm, found["seen"][step - 1], rtol=2e-3, err_msg=kind)


def test_gradients_are_measured_and_not_a_bit_changes(tmp_path: Path) -> None:
    """Plainly, and with a scaled loss."""
    facts = trained(tmp_path, "measured", kinds=FAST)
    are_measured(facts)
    skipped = len(facts["half_precision"]["steps"]) - len(facts["half_precision"]["norms"])
    assert skipped > 0, "a step that the scaler skipped is no divergence, and has no norm"


@pytest.mark.full
def test_gradients_of_every_kind_are_measured(tmp_path: Path) -> None:
    """Under XLA, sparse ones, of two optimisers, of several steps at once; and none where nothing is trained."""
    are_measured(trained(tmp_path, "measured", kinds=FULL))


@pytest.mark.full
def test_an_infinite_gradient_under_a_finite_loss_is_divergence(tmp_path: Path) -> None:
    """The update that it made is undone and its batch left out. Where each value is clipped it is made finite: then
    the training is as its user wanted it."""
    facts = trained(tmp_path, "exploding")
    plain, clipped = tmp_path / "plain", tmp_path / "clipped"
    (fault,) = of(plain, "fault")
    assert (fault["failure_class"], fault["where"]) == ("divergence", "in step 9 (epoch 1)")
    assert "gradient's global norm is inf" in fault["fault"]["message"]
    (change,) = of(plain, "semantic_change")
    assert "step 9 left out" in change["text"]
    assert facts["plain"] == {"finite": True, "iterations": 9}
    assert of(clipped, "fault") == []
    assert facts["clipped"] == {"finite": True, "iterations": 10}
    assert [step for step, _ in points(entries(clipped), NORM)] == [1, 2, 3, 4, 5, 6, 7, 8, 10]


@pytest.fixture(scope="module")
def spiked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Inputs ten thousand times too large at step 24 of 30."""
    folder = tmp_path_factory.mktemp("spiked")
    return folder, trained(folder, "spiked", faults="spike@24")


def test_a_spike_is_rolled_back_and_its_batch_left_out(spiked: tuple[Path, Any]) -> None:
    """Nothing is raised, and the loss stays finite."""
    folder, facts = spiked
    (fault,) = of(folder, "fault")
    assert (fault["failure_class"], fault["where"]) == ("divergence", "in step 24 (epoch 3)")
    assert "jumped" in fault["fault"]["message"]
    (decision,) = of(folder, "decision")
    assert (decision["resumption"], decision["settings"]["skipped_batches"]) == ("roll_back", [24])
    assert facts["iterations"] == 29
    (change,) = of(folder, "semantic_change")
    assert "step 24 left out" in change["text"]
    assert max(value for _, value in points(entries(folder), "batch/loss")) < 10


def test_a_spike_that_recovery_may_not_touch_is_said_and_left(tmp_path: Path) -> None:
    """A finite loss never ends a training that plain `fit` would have gone on with."""
    facts = trained(tmp_path, "spiked", faults="spike@24", policy="strict")
    assert of(tmp_path, "fault") == []
    (event,) = of(tmp_path, "event", name="loss_jump")
    assert "step 24" in event["text"] and "forbids" in event["text"]
    assert facts["iterations"] == 30


@pytest.mark.full
def test_roll_backs_leave_the_history_as_it_was(spiked: tuple[Path, Any], tmp_path: Path) -> None:
    """A training disturbed by something else judges its losses as the undisturbed one does."""
    disturbed = trained(tmp_path, "spiked", faults="raise@20,spike@24")
    assert disturbed == spiked[1]
    assert [fault["failure_class"] for fault in of(tmp_path, "fault")] == ["unknown", "divergence"]


@pytest.mark.full
def test_clean_trainings_raise_no_alarm(tmp_path: Path) -> None:
    """Three seeds of one model; twenty of each in the full tier."""
    assert trained(tmp_path, "calm", seeds=[1, 2, 3], kinds=["hasty"])["faults"] == 0


@pytest.mark.full
@pytest.mark.timeout(900)
def test_twenty_clean_trainings_of_each_model_raise_no_alarm(tmp_path: Path) -> None:
    """And where losses are like those of real trainings, none comes near the rule's bound."""
    facts = trained(tmp_path, "calm", seeds=list(range(20)), kinds=MODELS, seconds=800)
    assert (facts["trainings"], facts["faults"]) == (140, 0)
    assert max(far for kind, far in facts["distance"].items() if kind != "single") < 5
