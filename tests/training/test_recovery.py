"""What is done about a fault is done, said, and no more than said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training import children
from tests.training.fits import entries

STEPS = 12


def trained(folder: Path, target: str, **arguments: Any) -> dict[str, Any]:
    code = children.run(f"tests.training.faulty:{target}", folder, **arguments)
    assert code == 0, children.output(folder)
    return children.facts(folder)


def of(folder: Path, kind: str, **fields: Any) -> list[dict[str, Any]]:
    return [
        entry
        for entry in entries(folder)
        if entry["kind"] == kind and all(entry.get(name) == value for name, value in fields.items())
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return trained(tmp_path_factory.mktemp("undisturbed"), "undisturbed")


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one["weights"] == other["weights"] and one["loss"] == other["loss"]


def test_an_unknown_error_is_rolled_back_and_changes_nothing(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    facts = trained(tmp_path, "struck", faults="raise@9")
    assert same(facts, undisturbed)
    assert of(tmp_path, "semantic_change") == []
    assert [entry["status"] for entry in of(tmp_path, "attempt_ended")] == ["FAILED", "FINISHED"]


def test_out_of_memory_trains_the_same_batch_in_pieces(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    facts = trained(tmp_path, "struck", faults="oom@9x2")
    (first, second) = of(tmp_path, "decision")
    assert (first["settings"]["accumulation"], second["settings"]["accumulation"]) == (2, 4)
    assert facts["iterations"] == STEPS
    for ours, theirs in zip(facts["weights"], undisturbed["weights"], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert all("rounding" in entry["text"] for entry in of(tmp_path, "semantic_change"))


def test_pieces_of_a_model_with_dropout_are_said_to_change_the_result(tmp_path: Path) -> None:
    trained(tmp_path, "struck", faults="oom@9", dropout=True)
    (change,) = of(tmp_path, "semantic_change")
    assert "dropout" in change["text"]


def test_not_a_number_goes_back_and_leaves_the_batch_out(tmp_path: Path) -> None:
    facts = trained(tmp_path, "struck", faults="nan@9")
    (fault,) = of(tmp_path, "fault")
    assert fault["failure_class"] == "divergence"
    assert facts["iterations"] == STEPS - 1
    assert np.isfinite(facts["loss"]).all()
    (change,) = of(tmp_path, "semantic_change")
    assert "step 9 left out" in change["text"]


def test_strict_stops_where_only_a_change_would_help(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="RecoveryExhausted"):
        children.run("tests.training.faulty:struck", tmp_path, faults="nan@9", strict=True)
    (decision,) = of(tmp_path, "decision")
    assert (decision["verdict"], decision["basis"]) == ("stop", "changes_result")


def test_broken_files_are_named_and_left_out_and_the_steps_stay(tmp_path: Path) -> None:
    facts = trained(tmp_path, "files", broken=[5, 17])
    named = {
        Path(record["record"]).name
        for event in of(tmp_path, "event", name="quarantine")
        for record in event["data"]["records"]
    }
    assert named == {"005.png", "017.png"}
    assert facts["iterations"] == STEPS
    assert all(fault["in_place"] for fault in of(tmp_path, "fault"))
    assert {fault["failure_class"] for fault in of(tmp_path, "fault")} == {"bad_data"}
    assert of(tmp_path, "semantic_change")


def test_too_many_broken_files_stop_and_say_how_many(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="bad records"):
        children.run("tests.training.faulty:files", tmp_path, broken=list(range(0, 48, 2)))
    decision = of(tmp_path, "decision")[-1]
    assert (decision["verdict"], decision["basis"]) == ("stop", "quarantine_spent")


def test_a_batch_of_nothing_but_broken_files_makes_no_optimiser_step(tmp_path: Path) -> None:
    facts = trained(tmp_path, "files", broken=[])
    assert facts["iterations"] == STEPS
    assert of(tmp_path, "fault") == []


def test_labels_that_are_no_class_are_found_in_their_batch(tmp_path: Path) -> None:
    facts = trained(tmp_path, "labels", wrong=[10])
    events = of(tmp_path, "event", name="quarantine")
    assert [record["index"] for event in events for record in event["data"]["records"]] == [10, 10]
    assert facts["iterations"] == STEPS


def test_a_label_that_is_no_class_is_named_in_whatever_order_its_record_comes(tmp_path: Path) -> None:
    trained(tmp_path, "shuffled_labels", wrong=10)
    events = of(tmp_path, "event", name="quarantine")
    assert [record["record"] for event in events for record in event["data"]["records"]] == ["record-10", "record-10"]


@pytest.mark.parametrize("looks", [0, 1])
def test_data_that_cannot_be_found_again_is_never_silent(looks: int, tmp_path: Path) -> None:
    trained(tmp_path, "looked_at", looks=looks)
    told = [entry for entry in of(tmp_path, "semantic_change") if "order" in entry["text"]]
    assert bool(told) == bool(looks)


def test_broken_files_stay_out_after_a_resume(tmp_path: Path) -> None:
    facts = trained(tmp_path, "files", broken=[5, 17], faults="raise@6,raise@11")
    calm = trained(tmp_path / "calm", "files", broken=[5, 17])
    assert same(facts, calm)


def test_storage_that_comes_back_changes_nothing(tmp_path: Path) -> None:
    calm = trained(tmp_path / "calm", "away", times=0)
    facts = trained(tmp_path / "away", "away", times=2)
    assert same(facts, calm)
    assert {fault["failure_class"] for fault in of(tmp_path / "away", "fault")} == {"transient_io"}
    assert of(tmp_path / "away", "semantic_change") == []


def test_record_by_record_an_epoch_ends_where_it_ends(tmp_path: Path) -> None:
    assert trained(tmp_path, "past_the_end") == "ended"
