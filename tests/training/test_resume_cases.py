"""What went wrong for people who resumed a training, and is right here; each test by the id of its case."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training import children


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The cases, tried one after another in a child; some only where everything is tested."""
    folder = tmp_path_factory.mktemp("cases")
    slow = bool(request.config.getoption("--all"))
    assert children.run("tests.training.cases:tell", folder, seconds=280, slow=slow) == 0
    return children.facts(folder)


@pytest.mark.full
def test_r013_r057_the_best_is_kept_and_its_file_not_overwritten_by_a_worse_one(told: Any) -> None:
    assert told["r013"] == {"best": True, "untouched": True}


def test_r015_patience_counts_on(told: Any) -> None:
    assert told["r015"]["epochs"] == told["r015"]["plain"] == [0, 1, 2, 3]


@pytest.mark.full
def test_r017_a_retry_keeps_the_best_and_a_new_fit_does_not(told: Any) -> None:
    assert told["r017"]["ours"] == told["r017"]["plain"]


def test_r019_r061_epochs_and_steps_go_on(told: Any) -> None:
    assert told["r019"]["epochs"] == [0, 1, 2]
    assert told["r019"]["steps"] == [5, 10, 15]


def test_r021_r023_r049_the_optimiser_goes_on_with_its_count_and_its_slots(told: Any) -> None:
    assert told["r021"]["found"] == {"iterations": told["r021"]["step"], "slots": True}
    assert told["r021"]["equal"]


def test_r033_a_damaged_checkpoint_gives_way_to_the_one_before_loudly(told: Any) -> None:
    facts = told["r033"]
    assert facts["equal"]
    assert facts["aside"] == [f"damaged-{facts['damaged']}"]
    assert facts["from"] == facts["before"]
    assert len(facts["said"]) == 1
    assert facts["damaged"] in facts["said"][0]


def test_r035_a_kill_in_a_write_leaves_the_newest_whole(told: Any) -> None:
    assert told["r035"]["equal"]
    assert told["r035"]["from"] == told["r035"]["last"]
    assert told["r035"]["left"] == []


def test_r037_epochs_are_an_absolute_target(told: Any) -> None:
    assert told["r037"] == {"first": [0, 1, 2], "more": [0, 1, 2, 3]}


@pytest.mark.full
def test_r043_r045_r047_the_order_of_the_data_and_each_loss_are_those_of_the_straight_run(told: Any) -> None:
    assert told["r045"]["losses"]
    assert told["r045"]["steps"] == list(range(1, 16))


@pytest.mark.full
def test_r059_each_record_is_seen_once_an_epoch(told: Any) -> None:
    assert told["r045"]["seen"] == [40.0] * 3
    assert told["r045"]["squares"] == told["r045"]["reference"] == [float(sum(i * i for i in range(40)))] * 3


def test_r051_r053_another_architecture_is_refused_before_training(told: Any) -> None:
    assert "of another architecture" in told["r051"]["refused"]
    assert "kernel: float32 (4, 2) in the checkpoint, float32 (4, 3) in the model" in told["r051"]["refused"]
    assert told["r051"]["kept"]


@pytest.mark.full
def test_r055_another_jobs_checkpoints_stay(told: Any) -> None:
    facts = told["r055"]
    assert facts["kept"]
    assert facts["readable"] > 0
    assert facts["epochs"] == [0, 1, 2]
    assert len(facts["tidy"]) <= 2


@pytest.mark.full
def test_r065_r067_checkpoints_are_ordered_by_step(told: Any) -> None:
    facts = told["r065"]
    assert facts["order"] == sorted(facts["order"])
    assert facts["from"] == facts["newest"]


@pytest.mark.full
def test_r077_a_request_to_end_in_validation_and_in_the_first_step_saves(told: Any) -> None:
    assert told["r077"]["validation"] == {"saved": [5], "equal": True}
    assert told["r077"]["first step"]["saved"] == [1]
    assert told["r077"]["first step"]["equal"]


@pytest.mark.full
def test_a_csv_has_each_line_once(told: Any) -> None:
    assert told["csv_logger"]["ours"] == told["csv_logger"]["plain"]


def test_what_cannot_be_stored_is_named_before_training(told: Any) -> None:
    facts = told["callbacks_named"]
    assert "Unstorable.file cannot be stored" in facts["named"][0]
    assert "transform" not in facts["named"][0]
    assert len(facts["left_out"]) == 1
    assert any("Unstorable.file" in text for text in facts["changes"])


def test_a_checkpoint_whose_restore_ended_the_process_twice_is_set_aside(told: Any) -> None:
    facts = told["restore_that_kills"]
    assert "ended 2 times" in facts["said"][0]
    assert facts["from"] == facts["before"]


@pytest.mark.full
def test_a_learning_rate_that_was_changed_holds_and_is_said(told: Any) -> None:
    assert told["another_rate"]["rate"] == pytest.approx(0.005)
    assert told["another_rate"]["changes"] == ["learning rate 0.01 -> 0.005 from step 8, by the caller"]


@pytest.mark.full
def test_what_may_differ_is_said(told: Any) -> None:
    assert any("op determinism: True -> False" in text for text in told["elsewhere"])
    assert any("does the script set its seed" in text for text in told["elsewhere"])
