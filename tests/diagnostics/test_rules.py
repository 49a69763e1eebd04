"""The rules as pure functions: traces made by hand, on both sides of each threshold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mlflow_resilience.diagnostics import Trace, Verdict, of_history, verdicts
from mlflow_resilience.diagnostics.asking import steps_from
from mlflow_resilience.diagnostics.figure import png
from mlflow_resilience.diagnostics.recorder import MOST_READINGS, Recorder
from mlflow_resilience.diagnostics.sampling import SAMPLE, statistics, stride
from mlflow_resilience.diagnostics.table import MOST_LAYERS, chosen, metrics, table, tags
from mlflow_resilience.diagnostics.trace import FEATURES, LayerFacts
from mlflow_resilience.errors import UsageError


def trace(readings: int = 20, layers: int = 3, **features: Any) -> Trace:
    """A healthy one: losses fall, gradients are 1, updates 1e-3; ``features`` are put in their places."""
    values = np.zeros((readings, layers, len(FEATURES)), np.float32)
    for name, value in {"gradient_norm": 1.0, "weight_std": 0.1, "update_ratio": 1e-3}.items():
        values[:, :, FEATURES.index(name)] = value
    for name, value in features.items():
        values[:, :, FEATURES.index(name)] = value
    return Trace(
        layers=tuple(LayerFacts(name=f"layer_{at}", size=100, has_kernel=True) for at in range(layers)),
        steps=np.arange(5.0, 5 * readings + 1, 5),
        epochs=1.0 + np.arange(readings) // 10,
        losses=np.linspace(2.0, 0.5, readings),
        rates=np.full(readings, 0.01),
        values=values,
    )


def history(train: list[float], val: list[float] | None = None, rates: list[float] | None = None) -> Trace:
    given = {"loss": train, "val_loss": val, "learning_rate": rates}
    return of_history({name: values for name, values in given.items() if values is not None})


def found(of: Trace) -> list[str]:
    return [verdict.symptom for verdict in verdicts(of)]


def only(of: Trace) -> Verdict:
    (verdict,) = verdicts(of)
    return verdict


def test_a_healthy_trace_and_an_empty_one_give_no_verdict() -> None:
    """Silence is the usual case."""
    assert found(trace()) == []
    assert found(Trace()) == []
    assert found(trace(readings=1)) == []


def test_a_gradient_that_fades_towards_the_input_vanishes() -> None:
    """Below 1e-3 of the largest one after it, from the reading at which that began; a note where updates are right."""
    norms = np.ones((20, 3))
    norms[8:, 0] = 2e-4
    verdict = only(trace(gradient_norm=norms, update_ratio=1e-6))
    assert (verdict.symptom, verdict.severity, verdict.layers) == ("vanishing", "warning", ("layer_0",))
    assert (verdict.epoch, verdict.step) == (1, 45)
    assert verdict.evidence["ratio"] == pytest.approx(2e-4)
    assert only(trace(gradient_norm=norms)).severity == "note"
    norms[8:, 0] = 2e-3
    assert found(trace(gradient_norm=norms)) == []


def test_a_gradient_that_grows_towards_the_input_does_not_vanish() -> None:
    """The last layer has a small one by its nature; a layer is held against those after it."""
    assert found(trace(gradient_norm=np.array([1.0, 1.0, 1e-5]))) == []


def test_a_layer_whose_gradient_is_sparse_by_nature_is_left_out() -> None:
    """Most rows of an embedding have none."""
    embedded = trace(gradient_norm=np.array([1e-5, 1.0, 1.0]))
    first = replace(embedded.layers[0], has_kernel=False)
    assert found(replace(embedded, layers=(first, *embedded.layers[1:]))) == []


def test_a_loss_or_norm_that_is_not_finite_has_exploded_since_then() -> None:
    """An error, with the norm before and the layers."""
    norms = np.ones((20, 3))
    norms[12:, 1] = np.inf
    verdict = verdicts(trace(gradient_norm=norms))[0]
    assert (verdict.symptom, verdict.severity, verdict.step) == ("exploding", "error", 65)
    assert verdict.layers == ("layer_1",)
    assert "exploding" in found(history([1.0, 0.5, float("nan")]))


def test_a_norm_that_grows_a_hundredfold_explodes_unless_the_loss_falls() -> None:
    """A training that leaves a plateau has growing gradients too."""
    grown = trace(gradient_norm=np.geomspace(1.0, 1e5, 20)[:, None])
    assert found(grown) == []
    verdict = only(replace(grown, losses=np.linspace(2.0, 3.0, 20)))
    assert verdict.symptom == "exploding"
    assert verdict.evidence["growth"] > 100
    thirty = trace(gradient_norm=np.geomspace(1.0, 30.0, 20)[:, None])
    assert found(replace(thirty, losses=np.linspace(2.0, 3.0, 20))) == []


def test_steps_that_replace_the_weights_are_an_explosion_if_the_loss_rises() -> None:
    """Two of the last five readings; a single one may be the first step of weights that began at zero."""
    ratios, rising = np.full((20, 3), 1e-3), np.linspace(2.0, 8.0, 20)
    ratios[17, 2] = 3.0
    assert found(replace(trace(update_ratio=ratios), losses=rising)) == []
    ratios[19, 2] = 2.0
    assert only(replace(trace(update_ratio=ratios), losses=rising)).layers == ("layer_2",)
    assert found(trace(update_ratio=ratios)) == []


def test_dead_units_are_told_from_two_fifths_of_a_layer_on() -> None:
    """The share as it is, and since when."""
    dead = np.full((20, 3), np.nan)
    dead[:, 1] = 0.39
    assert found(trace(dead=dead)) == []
    dead[10:, 1] = 0.5
    verdict = only(trace(dead=dead))
    assert (verdict.symptom, verdict.step, verdict.evidence["dead"]) == ("dead_units", 55, 0.5)


def test_a_rate_is_high_or_low_by_the_ratio_of_update_and_weights() -> None:
    """High only while the loss does not fall, low only while it is high."""
    flat = np.full(20, 2.0)
    assert "rate_high" in found(replace(trace(update_ratio=0.2), losses=flat))
    assert found(trace(update_ratio=0.2)) == []
    assert "rate_low" in found(replace(trace(update_ratio=1e-6), losses=flat))
    assert found(replace(trace(update_ratio=1e-6), losses=np.linspace(2.0, 0.2, 20))) == []
    assert found(replace(trace(update_ratio=1e-3), losses=flat)) == []


def test_a_plateau_is_flat_and_high() -> None:
    """What is low has converged; what still falls is none; its beginning is the first epoch that belongs to it."""
    falling = [2.0, 1.8, 1.6, 1.5]
    verdict = only(history([*falling, *[1.4 + 0.001 * (at % 2) for at in range(8)]]))
    assert (verdict.symptom, verdict.epoch) == ("plateau", 5)
    assert found(history([*falling, 1.0, *[0.4] * 8])) == []
    assert found(history([2.0 * 0.98**at for at in range(12)])) == []


def test_a_plateau_that_was_left_is_told_as_a_saddle_unless_the_rate_changed() -> None:
    """A step of the learning rate ends many a plateau."""
    losses = [2.0] * 8 + [1.9, 1.2, 0.8, 0.6, 0.5, 0.4]
    verdict = only(history(losses))
    assert (verdict.symptom, verdict.severity, verdict.epoch) == ("saddle", "note", 1)
    assert found(history(losses, rates=[0.1] * 8 + [0.01] * 6)) == []


def test_a_loss_that_swings_and_gains_nothing_oscillates() -> None:
    """Small waves and a falling loss are none."""
    swinging = [1.0, 0.5, 0.9, 0.5, 0.8, 0.4, 0.9, 0.5, 0.8]
    assert "oscillation" in found(history(swinging))
    assert found(history([1.0, 0.8, 0.82, 0.6, 0.62, 0.4, 0.42, 0.3, 0.2])) == []


def test_overfitting_begins_after_the_best_epoch() -> None:
    """Ten percent above the best for five epochs, while training goes on to fall."""
    train = [1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02]
    val = [1.0, 0.85, 0.75, 0.7, 0.72, 0.8, 0.85, 0.9, 1.0, 1.1]
    verdict = only(history(train, val))
    assert (verdict.symptom, verdict.epoch) == ("overfitting", 5)
    assert verdict.evidence["best"] == 0.7
    noisy = [1.0, 0.85, 0.75, 0.7, 0.72, 0.75, 0.71, 0.74, 0.72, 0.73]
    assert found(history(train, noisy)) == []
    assert "overfitting" not in found(history([*train[:4], *[0.5] * 6], val)), "training does not gain by it"


def test_underfitting_is_a_high_loss_with_a_small_gap() -> None:
    """The training loss stands still, and so does the validation loss beside it."""
    train = [1.0, 0.9, *[0.88] * 8]
    assert "underfitting" in found(history(train, [1.0, 0.92, *[0.9] * 8]))
    assert "underfitting" not in found(history(train, [2.0, 1.9, *[1.8] * 8]))
    assert found(history([1.0, 0.9, *[0.2] * 8], [1.0, 0.9, *[0.21] * 8])) == []


def test_a_recorder_is_the_same_after_its_state_went_through_a_checkpoint() -> None:
    """Bounded, and thinned in the same places."""
    recorder = Recorder(layers=(LayerFacts(name="a", size=4, has_kernel=True),))
    for at in range(MOST_READINGS + 3):
        recorder.steps = at + 1
        recorder.add(1.0, 0.1, np.full((1, len(FEATURES)), at, np.float32))
    recorder.end_epoch(0, 1.0, float("nan"), 0.1)
    again = Recorder.from_state(recorder.to_state())
    assert len(recorder.readings) == MOST_READINGS + 3 - MOST_READINGS // 4
    assert recorder.readings[-1][0] == MOST_READINGS + 3
    for one, other in zip(vars(recorder.trace()).values(), vars(again.trace()).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_loss_of_a_reading_is_that_of_the_steps_since_the_one_before() -> None:
    """Keras tells the mean over the epoch so far."""
    recorder = Recorder()
    recorder.begin_epoch(0)
    recorder.steps = 4
    assert recorder.loss_since(2.0) == 2.0
    recorder.steps = 8
    assert recorder.loss_since(1.5) == 1.0
    recorder.begin_epoch(1)
    recorder.steps = 9
    assert recorder.loss_since(0.5) == 0.5


def test_a_unit_is_dead_after_five_silent_readings_in_which_another_was_not() -> None:
    """A step without any gradient at all says nothing of one unit."""
    recorder = Recorder()
    silent, none = np.array([0.0, 1.0], np.float32), np.zeros(2, np.float32)
    for _ in range(4):
        recorder.silenced(silent, [(0, 2)])
    assert recorder.silenced(none, [(0, 2)]).tolist() == [[1.0, 0.0]]
    assert recorder.silenced(silent, [(0, 2)]).tolist() == [[0.5, 0.5]]
    assert np.isnan(recorder.silenced(silent, [None])).all()


def test_a_sample_of_weights_reaches_all_units() -> None:
    """Small variables are taken whole; of large ones no column is left out."""
    assert stride((100, 10)) == 1
    for shape in ((4096, 512), (3, 3, 512, 512), (50_000, 768)):
        step, size = stride(shape), int(np.prod(shape))
        assert size // step <= SAMPLE
        assert len({at % shape[-1] for at in range(0, size, step)}) == shape[-1]


def test_statistics_are_those_of_each_layer() -> None:
    """The update of one step, where several lie between the samples; weights that are not finite have none."""
    before, after = np.array([3.0, 4.0, 1.0], np.float32), np.array([3.0, 5.0, 2.0], np.float32)
    np.testing.assert_allclose(statistics(before, after, [2, 1], 2), [[4.0, 1.0, 0.1], [2.0, 0.0, 0.5]])
    assert np.isnan(statistics(before, np.full(3, np.inf), [2, 1], 1)).all()


def test_table_tags_and_metrics_hold_plain_values() -> None:
    """JSON without NaN, metrics of twenty layers at most, a tag for each symptom."""
    dead = np.full((20, 50), np.nan)
    dead[:, 7] = 0.9
    many = trace(layers=50, dead=dead)
    told = verdicts(many)
    text = json.dumps(table(many, told, 50), allow_nan=False)
    assert len(json.loads(text)["layers"]) == 50
    assert tags(told)["resilience.diagnostics"] == "dead_units"
    assert "90%" in tags(told)["resilience.diagnostics.dead_units"]
    assert tags([]) == {"resilience.diagnostics": "nothing found"}
    values = metrics(many)
    assert len([name for name in values if name.startswith("diagnostics/update_ratio/")]) == MOST_LAYERS
    assert values["diagnostics/dead_units"] == pytest.approx(0.9)
    assert chosen(50)[0] == 0 and chosen(50)[-1] == 49


def test_a_figure_is_drawn_of_whatever_was_recorded() -> None:
    """With verdicts, without validation, with what is not finite, and of next to nothing."""
    norms = np.ones((20, 3))
    norms[12:, 1] = np.inf
    for each in (trace(), trace(readings=1), trace(gradient_norm=norms), history([1.0] * 8), Trace()):
        assert png(each, verdicts(each)).startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["0", "-5", "1.5", "often", "50 steps", "²"])
def test_a_number_of_steps_that_is_none_is_one_line(text: str) -> None:
    """What was given, and what would do."""
    with pytest.raises(UsageError, match="`off` or a number of steps") as raised:
        steps_from(text)
    assert "\n" not in str(raised.value)


def test_off_and_numbers_are_understood() -> None:
    """As the recipe's parameter gives them."""
    assert [steps_from(text) for text in ("off", "OFF", "none", "", "1", " 50 ")] == [None, None, None, None, 1, 50]
