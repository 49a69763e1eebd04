"""A failed step is kept, bounded, and repeated alone: does it recur, and where do numbers stop being finite?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training import children
from tests.training.fits import entries


def told(folder: Path, target: str, **arguments: Any) -> Any:
    assert children.run(f"tests.training.replays:{target}", folder, **arguments) == 0, children.output(folder)
    return children.facts(folder)


@pytest.mark.full
def test_what_lay_in_the_batch_recurs_and_what_did_not_does_not(tmp_path: Path) -> None:
    """A poisoned batch and a damaged record fail again, memory that ran out does not; from a checkpoint before."""
    record, memory, poison = told(tmp_path, "answers", faults="corrupt_record@5,oom@7,nan@10")
    assert (record["failure_class"], record["recurs"]) == ("bad_data", True)
    assert "outside the valid range" in record["ended"]
    assert (memory["failure_class"], memory["recurs"]) == ("host_oom", False)
    assert (memory["inputs"], memory["outputs"], memory["gradients"]) == ("finite", "finite", "finite")
    assert (poison["failure_class"], poison["recurs"]) == ("divergence", True)
    assert (poison["inputs"], poison["outputs"]) == ("not finite", "not finite, first in first")
    assert poison["gradients"].startswith("not finite, first in ")
    assert 0 < poison["from_step"] < poison["step"] == 10


@pytest.mark.full
def test_off_by_default_and_bounded(tmp_path: Path) -> None:
    """Nothing is kept that was not asked for; what is beyond the limit is left out, and that is said."""
    assert told(tmp_path / "off", "kept", faults="raise@5", limit="none") == []
    assert told(tmp_path / "little", "kept", faults="raise@5", limit="10B") == []
    (event,) = [entry for entry in entries(tmp_path / "little") if entry.get("name") == "replay_left_out"]
    assert "replay's limit 10" in event["text"]


@pytest.mark.full
def test_a_checkpoint_that_does_not_fit_is_named_and_not_kept(tmp_path: Path) -> None:
    """The batch alone is kept then, and replayed with the weights that the recipe begins with."""
    (answer,) = told(tmp_path, "answers", faults="nan@5", limit="1kB")
    assert (answer["recurs"], answer["from_step"]) == (True, None)
    (kept,) = tmp_path.rglob("replay.json")
    meta = json.loads(kept.read_text())
    assert meta["checkpoint"]["stored"] is False
    assert not (kept.parent / "checkpoint").exists()


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = told(tmp_path_factory.mktemp("looked"), "looked_at")
    return found


def test_the_first_layer_and_the_first_gradient_that_are_not_finite_are_named(looked_at: dict[str, Any]) -> None:
    """Within nested models too; looking leaves the layers as they were."""
    assert looked_at["nested"] == looked_at["again"] == "inverse"
    assert looked_at["calls are their own"]
    assert looked_at["output"] is None
    assert "kernel" in looked_at["gradient"]
