"""What each remedy does on the handwritten digits, and that it leaves a training alone that has no need of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.remedies import texts
from tests.training import children
from tests.training.fits import entries


def told(folder: Path, target: str, **arguments: Any) -> Any:
    assert children.run(f"tests.remedies.trials:{target}", folder, **arguments) == 0, children.output(folder)
    return children.facts(folder)


def of(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [entry for entry in entries(folder) if entry["kind"] == kind]


# -- as they are put to a model ------------------------------------------------------------------------------------


def cosine(step: int, over: int, floor: float = 0.0) -> float:
    return floor + (0.1 - floor) * (1 + math.cos(math.pi * min(step / over, 1.0))) / 2


def rising(step: int, over: int) -> float:
    return 0.1 / over + (0.1 - 0.1 / over) * step / over


EXPECTED = {
    "constant": lambda step: rising(step, 10) if step < 10 else 0.1,
    "cosine": lambda step: rising(step, 10) if step < 10 else cosine(step - 10, 20, 0.01),
    "exponential": lambda step: rising(step, 10) if step < 10 else 0.1 * 0.5 ** ((step - 10) / 10),
    "cyclic": lambda step: rising(step, 4) if step < 4 else cosine(step - 4, 8) if step < 12 else cosine(step - 12, 16),
    "plain cosine": lambda step: cosine(step, 20),
    "plain exponential": lambda step: 0.1 * 0.5 ** (step / 10),
}


def test_rates_rise_and_fall_as_they_were_asked_to(tmp_path: Path) -> None:
    """The same from a model that was saved and loaded."""
    facts = told(tmp_path, "rates")
    assert set(facts) == set(EXPECTED)
    for name, found in facts.items():
        steps = 28 if name == "cyclic" else 40  # up to the next restart, where a step more or less is all
        expected = [EXPECTED[name](step) for step in range(steps)]
        assert found["rates"][:steps] == pytest.approx(expected, rel=1e-4, abs=1e-8), name
        assert found["equal"], name
        assert found["line"].startswith("learning rate 0.1: "), name


def test_a_model_is_rebuilt_with_its_weights_and_the_given_one_is_left(tmp_path: Path) -> None:
    """Sequential and functional, with a shared layer, a branch, a frozen model inside, and operations that are none."""
    facts = told(tmp_path, "rebuilt")
    for name, found in facts.items():
        assert found["loss"] and found["optimizer"] and found["outputs"], name
        assert found["given"] == 0.0, name
        assert found["kind"] == name.split()[0].capitalize(), name
        assert found["differs"] < (2e-3 if "batchnorm" in name else 1e-6), name  # of the epsilon in its root
        assert found["trainable"] == (64 if "batchnorm" in name else 0), name
    assert facts["sequential dropout:0.4"]["layers"][1:] == ["hidden", "hidden_dropout", "last"]
    assert facts["sequential batchnorm"]["layers"][1:] == ["hidden", "hidden_batchnorm", "hidden_activation", "last"]
    added = {name for name in facts["functional dropout:0.4"]["layers"] if name.endswith("_dropout")}
    assert added == {"left_dropout", "shared_dropout"}, "neither the last layer nor the model inside has one"
    penalties = {name: found["penalties"] for name, found in facts.items() if "l2" in name}
    assert penalties == {"sequential l2:0.01": 2, "functional l2:0.01": 3}, "a layer's own stays as it is"


def test_what_does_not_go_is_refused_in_a_line(tmp_path: Path) -> None:
    """It names the layer, the figure or the schedule."""
    facts = told(tmp_path, "refused")
    expected = {
        "class of its own": "Own, a class of its own",
        "own augmented": "Own, a class of its own",
        "no picture": r"this one has (None, 4)",
        "no hidden layer": "no hidden dense or convolution layer",
        "trained": "was trained already",
        "lambda": "layer lambda (Lambda)",
        "schedule twice": "CosineDecay",
        "plateau on schedule": "choose one",
        "no length": "cosine:5000",
        "unknown figure": "measured are val_loss, val_accuracy",
        "no validation": "needs validation data",
    }
    assert {name: text in facts[name] for name, text in expected.items()} == dict.fromkeys(expected, True)
    assert not any("\n" in text for text in facts.values())


def test_a_remedy_makes_another_job_of_it_and_none_leaves_it_the_same(tmp_path: Path) -> None:
    """By what it does, and not by how it is written; a cosine up to the end by the end that it has."""
    found = told(tmp_path, "keys")
    assert found["nothing"] == found["alive"] == {}
    assert found["clip"] == found["clip again"] == {"clip": {"kind": "norm", "bound": 1.0}}
    assert found["cosine"]["schedule"]["steps"] == 30
    assert found["cosine"] != found["longer cosine"]
    assert found["cosine"] == found["given cosine"]


# -- what they do --------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_what_has_no_occasion_changes_no_bit(tmp_path: Path) -> None:
    """No remedy at all, a bound that no gradient reaches, and patience that does not run out."""
    assert told(tmp_path, "silent") == {"nothing": True, "clip": True, "waiting": True}


@pytest.mark.full
def test_clipped_gradients_do_not_explode(tmp_path: Path) -> None:
    """By norm, by value and by global norm, where the loss is a hundred times too large without."""
    facts = told(tmp_path, "clipped")
    without = facts.pop("none")
    for text, losses in facts.items():
        assert losses[-1] < 20 < without[-1] / 10, text
        assert losses[0] > losses[1] > losses[2], text


@pytest.mark.full
def test_early_stopping_ends_an_overfitting_training(tmp_path: Path) -> None:
    """Three epochs after the best one."""
    facts = told(tmp_path, "stopped")
    assert len(facts["without"]) == 40
    losses = facts["with"]
    assert len(losses) < 30
    assert losses.index(min(losses)) == len(losses) - 4


@pytest.mark.full
def test_a_plateau_lowers_the_rate(tmp_path: Path) -> None:
    """Each time when an epoch was no better; the last losses are lower than without, and calmer."""
    facts = told(tmp_path, "lowered")
    rates = facts["with"]["learning_rate"]
    assert rates[0] == pytest.approx(0.3) and rates[-1] <= 0.3 * 0.2**2 * 1.001
    assert rates == sorted(rates, reverse=True)
    assert "learning_rate" not in facts["without"]
    assert facts["with"]["loss"][-1] < facts["without"]["loss"][-1]


@pytest.mark.full
def test_a_decaying_rate_ends_lower(tmp_path: Path) -> None:
    """The same peak, warmed up and decaying, ends with less than a fifth of the loss."""
    facts = told(tmp_path, "decayed")
    assert facts["with"][-1] < facts["without"][-1] / 5


@pytest.mark.full
def test_penalties_shrink_weights_and_dropout_helps_validation(tmp_path: Path) -> None:
    """On a network that is far too large for its data."""
    facts = told(tmp_path, "regularised")
    plain = facts["none"]
    assert facts["l2:0.01"]["norm"] < plain["norm"] / 2
    assert facts["l1:0.001"]["small"] > 10 * plain["small"]
    assert facts["dropout:0.5"]["val_loss"] < plain["val_loss"]


@pytest.mark.full
def test_batch_normalisation_lets_a_deep_network_learn(tmp_path: Path) -> None:
    """Ten layers of sigmoids stay at chance without."""
    facts = told(tmp_path, "normalised")
    assert facts["without"] < 0.3
    assert facts["with"] > 0.7


@pytest.mark.full
def test_augmentation_helps_where_pictures_are_moved(tmp_path: Path) -> None:
    """And prediction draws nothing."""
    facts = told(tmp_path, "augmented")
    assert facts["with"] > facts["without"] + 0.15
    assert not facts["prediction draws"]


# -- together with recovery ----------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_resume_under_schedule_and_early_stopping_is_exact(tmp_path: Path) -> None:
    """Interrupted in mid-epoch and gone on with by a new model, it ends early, with the bits of plain `fit`."""
    chosen = {name: texts.TOGETHER[name] for name in ("schedule", "early_stopping")}
    facts = told(tmp_path, "resumed", texts=chosen, after=texts.AFTER)
    assert facts["equal"]
    assert len(facts["attempts"]) == 2 and facts["attempts"][1] > 0
    assert len(facts["epochs"]) < texts.EPOCHS, "it was stopped early"


@pytest.mark.full
@pytest.mark.parametrize("chosen", [[*texts.TOGETHER], ["plateau"]])
def test_a_resume_under_every_remedy_is_exact(tmp_path: Path, chosen: list[str]) -> None:
    """Augmentation, dropout and batch normalisation among them."""
    wanted = {**texts.TOGETHER, "plateau": "loss:1,factor:0.2"}
    facts = told(tmp_path, "resumed", texts={name: wanted[name] for name in chosen}, after=texts.AFTER)
    assert facts["equal"]
    assert len(facts["attempts"]) == 2 and facts["attempts"][1] > 0


def test_a_rung_clips_gradients_from_the_roll_back_on(tmp_path: Path) -> None:
    """Each step goes no further than the bound, and the change of the result is recorded."""
    facts = told(tmp_path, "exploded", policy="ladder", faults="spike@24")
    (decision,) = of(tmp_path, "decision")
    assert decision["settings"]["gradient_bound"] == 0.5
    assert "gradients clipped to a global norm of 0.5" in decision["text"]
    _, second = of(tmp_path, "attempt")
    assert (second["attempt"], second["settings"]["gradient_bound"]) == (2, 0.5)
    (change,) = of(tmp_path, "semantic_change")
    at = change["step"]
    assert change["text"] == f"gradients clipped to a norm of 0.5 from step {at}"
    assert max(facts["moved"][at - 1 :]) < 0.5001 < max(facts["moved"][: at - 1])


@pytest.mark.full
def test_a_rung_clips_gradients_at_the_failed_step_itself(tmp_path: Path) -> None:
    """The step is traced again with the bound."""
    facts = told(tmp_path, "exploded", policy="in_place", faults="raise@9")
    assert max(facts["moved"][8:]) < 0.1001 < min(facts["moved"][:8])


@pytest.mark.full
@pytest.mark.parametrize("kind", ["sparse", "scaled", "jit", "eager", "pieces", "replicas"])
def test_gradients_of_every_kind_are_bounded(tmp_path: Path, kind: str) -> None:
    """By the norm of the whole batch's gradients, at the user's own loss."""
    moved = told(tmp_path, "bounded", kind=kind)
    assert len(moved) == 20
    assert moved[8:] == pytest.approx([0.1] * 12, rel=1e-3)
    assert max(moved[:8]) > 0.101


@pytest.mark.full
def test_a_bound_outlives_its_process(tmp_path: Path) -> None:
    """Interrupted after the rung and gone on with by a new model: the bits of the one that was not interrupted."""
    facts = told(tmp_path, "clipped_on")
    assert facts["same"]
    assert facts["last"]["settings"]["gradient_bound"] == 0.5
    assert max(facts["moved"][-12:]) < 0.5001


@pytest.mark.full
def test_the_rung_is_not_taken_where_nothing_may_change_the_result(tmp_path: Path) -> None:
    """Under `Policy.strict()` the spike is left as it is; and without the rung nothing is clipped."""
    strict = told(tmp_path / "strict", "exploded", policy="strict", faults="spike@24")
    plain = told(tmp_path / "plain", "exploded", policy="strict", faults="none")
    assert of(tmp_path / "strict", "semantic_change") == []
    assert strict["moved"][:23] == plain["moved"][:23]
    assert max(strict["moved"]) > 100
    assert all(entry["settings"]["gradient_bound"] is None for entry in of(tmp_path / "strict", "attempt"))
