"""A place in the data that is found from an anchor, or from the beginning where that fails, is the same place."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.spool.folder import jobs
from tests.training import children
from tests.training.killing import Kill
from tests.training.test_identity import SEED, reference, train

__all__ = ["reference"]

STORABLE = ("slices", "stateless", "unknown", "repeated", "three_steps_per_execution")
EVERY_STEP = {"anchors": "every step"}


def newest_anchor(folder: Path) -> dict[str, Any] | None:
    """The anchor in the newest checkpoint of the job."""
    newest = max(jobs(folder)[0].checkpoints.rglob("step-*/state.json"), key=lambda marker: marker.parent.name)
    return children.state_at(newest.parent)["data"]["training"]["anchor"]


@pytest.mark.parametrize("pipeline", random.Random(SEED).sample(STORABLE, 1))
def test_from_an_anchor_training_goes_on_as_if_undisturbed(reference: Any, tmp_path: Path, pipeline: str) -> None:
    """A new process finds the place from it; what it does not go through again, it must not need."""
    goes_on(reference, tmp_path, pipeline)


@pytest.mark.full
@pytest.mark.parametrize("pipeline", STORABLE)
def test_it_does_so_in_every_pipeline(reference: Any, tmp_path: Path, pipeline: str) -> None:
    goes_on(reference, tmp_path, pipeline)


def goes_on(reference: Any, tmp_path: Path, pipeline: str) -> None:
    kill = Kill("step 18", "SIGKILL")
    assert children.run("tests.training.fits:resilient", tmp_path, pipeline=pipeline, kills=[kill], **EVERY_STEP) == -9
    laid = newest_anchor(tmp_path)
    assert laid is not None and laid["taken"] > 0
    assert children.run("tests.training.fits:resilient", tmp_path, pipeline=pipeline, **EVERY_STEP) == 0
    assert children.facts(tmp_path) == reference(pipeline)
    assert children.note(tmp_path, "from anchor") == str(laid["taken"])


@pytest.mark.full
@pytest.mark.parametrize("pipeline", ["slices", "repeated"])
def test_a_roll_back_uses_it_too(reference: Any, tmp_path: Path, pipeline: str) -> None:
    _, ended = train(tmp_path, pipeline, [Kill("step 18", "exception")], **EVERY_STEP)
    assert ended == reference(pipeline)
    assert int(children.note(tmp_path, "from anchor")) > 0


@pytest.mark.full
@pytest.mark.parametrize("pipeline", ["stateful_ops", "generator", "arrays", "py_dataset"])
def test_what_cannot_be_stored_is_gone_through(reference: Any, tmp_path: Path, pipeline: str) -> None:
    """Python code and kernels with streams of their own: no anchor is laid, and trying to changes nothing."""
    _, ended = train(tmp_path, pipeline, [Kill("step 18", "exception")], **EVERY_STEP)
    assert newest_anchor(tmp_path) is None
    assert ended == reference(pipeline)


@pytest.mark.full
@pytest.mark.parametrize(("how", "equal"), [("of another pipeline", True), ("one batch off", False)])
def test_an_anchor_that_does_not_fit(reference: Any, tmp_path: Path, how: str, equal: bool) -> None:
    """One that tf.data refuses is left, for the long way; one at another place would be noticed by the comparison."""
    kill = Kill("step 18", "SIGKILL")
    assert children.run("tests.training.fits:resilient", tmp_path, pipeline="slices", kills=[kill], **EVERY_STEP) == -9
    assert children.run("tests.training.fits:resilient", tmp_path, pipeline="slices", anchors=how) == 0
    assert (children.facts(tmp_path) == reference("slices")) is equal
