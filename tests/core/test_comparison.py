"""Two runs side by side: the verdict, what it is derived from, and how it is shown."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from mlflow_resilience.cli.comparing import Comparison
from mlflow_resilience.cli.side_by_side import show
from mlflow_resilience.comparison import differences, noise, pairs, verdict
from mlflow_resilience.comparison.table import table
from mlflow_resilience.comparison.values import ComparedRun, Points
from mlflow_resilience.comparison.verdict import CHANGED, NO_RESULT, NOTHING_SHARED, SAME_BITS, SAME_WITHIN_NOISE, judge

PLACE = {"host": "one", "python": "3.11.2", "tensorflow": "2.21.0"}


def curve(shift: float = 0.0, wobble: float = 0.01) -> Points:
    """A loss that falls by 0.1 an epoch, and wobbles."""
    return [(epoch * 10, 2 - 0.1 * epoch + wobble * (-1) ** epoch + shift) for epoch in range(1, 11)]


def run(name: str = "a", shift: float = 0.0, **more: Any) -> ComparedRun:
    points = curve(shift)
    base = ComparedRun(
        run_id=name * 32, name=name, outcome="clean", attempts=1, faults=0, digest="d", resume_key="k", place=PLACE,
        params={"epochs": "10", "learning_rate": "0.1", "seed": "0", "fault": "none"},
        metrics={"val_loss": points[-1][1]}, curves={"val_loss": points},
    )  # fmt: skip
    return replace(base, **more)


def test_equal_digests_are_the_same_bit_for_bit() -> None:
    recovered = run("b", outcome="recovered", faults=2, params={**run().params, "fault": "raise@60"})
    assert judge(run(), recovered).word == SAME_BITS


@pytest.mark.parametrize(
    "more",
    [
        {"changes": ("learning rate halved at step 120",)},
        {"not_reproducible": "parallel maps"},
        {"place": {**PLACE, "host": "two"}},
        {"place": {**PLACE, "tensorflow": "2.22.0"}},
        {"place": {}},
        {"digest": "other"},
        {"digest": ""},
    ],
)
def test_nothing_else_is_called_the_same_bit_for_bit(more: dict[str, Any]) -> None:
    found = judge(run(), run("b", **more))
    assert found.word == (CHANGED if "changes" in more else SAME_WITHIN_NOISE)
    assert found.sentence.startswith(found.word)


def test_two_runs_without_digests_are_not_identical() -> None:
    assert judge(run(digest=""), run("b", digest="")).word == SAME_WITHIN_NOISE


def test_noise_is_that_of_single_epochs_and_not_the_progress_of_training() -> None:
    falling = [(step, 2 - 0.1 * step) for step in range(10)]
    assert noise.tolerance([falling]) == pytest.approx(0, abs=1e-12)
    assert noise.tolerance([curve(wobble=0.01)]) == pytest.approx(3 * math.sqrt(2 / 1.5) * 0.02)
    assert noise.tolerance([curve()[:3], []]) is None
    assert noise.tolerance([[(step, math.nan) for step in range(9)]]) is None


def test_within_and_beyond_the_noise() -> None:
    near, far = run("b", 0.05, digest="x"), run("c", 0.2, digest="y")
    assert judge(run(), near).word == SAME_WITHIN_NOISE
    found = judge(run(), far)
    assert found.word == CHANGED
    assert "nothing that was recorded explains it: val_loss 1.01 and 1.21, noise up to 0.069" in found.sentence


def test_too_few_epochs_tell_no_noise() -> None:
    few = {"curves": {"val_loss": [(1, 0.5)]}}
    one, other = run(metrics={"val_loss": 0.5}, **few), run("b", metrics={"val_loss": 0.6}, digest="x", **few)
    assert "too few epochs" in judge(one, other).sentence
    assert judge(one, replace(other, metrics={"val_loss": 0.5})).word == SAME_WITHIN_NOISE


def test_what_is_known_to_change_the_result_is_named() -> None:
    quicker = run("b", 0.05, digest="x", resume_key="l", params={**run().params, "learning_rate": "0.2"})
    found = judge(run(), quicker).sentence
    assert found.startswith("changed, because learning_rate is 0.1 and 0.2 (the final metrics are within noise")
    halved = run("b", 0.2, digest="x", changes=("learning rate halved",))
    assert judge(run(), halved).sentence.startswith("changed, because recovery changed b (bbbbbbbb): learning rate hal")


def test_what_only_keeps_a_run_alive_is_no_cause() -> None:
    kept = run("b", params={**run().params, "fault": "kill@7", "max_attempts": "3", "resume": "never"}, resume_key="")
    assert differences.causes(run(), kept) == []
    assert differences.causes(run(), run("b", params={**run().params, "note": "x"})) == [], "equal resume keys"
    longer = run("b", params={**run().params, "epochs": "20"})
    assert differences.causes(run(), longer) == ["epochs is 10 and 20"]
    assert differences.causes(run(), run("b", resume_key="other"))[0].startswith("model, data or training")


def test_another_seed_is_another_draw_of_the_same() -> None:
    other = run("b", 0.05, digest="x", resume_key="l", params={**run().params, "seed": "1"})
    assert judge(run(), other).word == SAME_WITHIN_NOISE
    assert "two draws of the same training: seed is 0 and 1" in judge(run(), other).sentence
    assert "draws" not in judge(run(), run("b", 0.05, digest="x")).sentence


@pytest.mark.parametrize("outcome", ["failed", "preempted", "running", "killed", "unknown"])
def test_no_finished_result(outcome: str) -> None:
    found = judge(run(), run("b", outcome=outcome, failure_classes=("host_oom",)))
    assert found == verdict.Verdict(NO_RESULT, f"no finished result: b (bbbbbbbb) is {outcome} (host_oom)")


def test_nan_ends() -> None:
    broken = run("b", metrics={"val_loss": math.nan}, curves={"val_loss": [(1, math.nan)]}, digest="x")
    assert judge(run(), broken).word == CHANGED
    assert "1.01 and not a number" in judge(run(), broken).sentence


def test_runs_that_share_nothing() -> None:
    assert judge(run(metrics={}, digest=""), run("b", metrics={})).word == NOTHING_SHARED


def test_every_pair_of_a_few_and_each_with_the_reference_of_many() -> None:
    few = [run(name) for name in "abcd"]
    assert len(pairs.judged(few)) == 6
    assert pairs.judged(few[:1]) == pairs.judged([]) == []
    many = [run("a", outcome="failed"), run("b", outcome="recovered", faults=1), *(run(name) for name in "cdefgh")]
    judged = pairs.judged(many)
    assert [pair.a.name for pair in judged] == ["c"] * 7
    assert [pair.b.name for pair in judged] == list("abdefgh")


def test_the_table_shows_what_differs_and_nothing_where_nothing_is_known() -> None:
    foreign = ComparedRun(run_id="f" * 32, outcome="finished", params={"lr": "1"}, metrics={"val_loss": math.nan})
    shown = table([run(lost_steps=1200, goodput=0.934, seconds=83.0), foreign])
    first, second = (dict(zip(shown.columns, row, strict=True)) for row in shown.rows)
    assert (first["lost steps"], first["goodput"]) == ("1,200", "93%")
    assert first["wall time"] == "1 min 23 s"
    assert second["val_loss"] == "NaN"
    assert second["attempts"] == second["lost steps"] == second["goodput"] == "-"
    assert shown.params == [["epochs=10", "learning_rate=0.1", "seed=0", "fault=none"], ["lr=1"]]
    assert table([run(), run("b")]).params == []
    assert table([]).rows == []


def test_a_wide_table_says_what_it_leaves_out() -> None:
    wide = run(metrics={f"m{place}": 1.0 for place in range(30)}, params={f"p{place}": "1" for place in range(30)})
    shown = table([wide, run("b")])
    assert "25 more metrics" in shown.left_out
    assert "more params that differ" in shown.left_out


def test_on_a_terminal_a_name_is_no_markup(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    runs = [run(name="[red]x[/red]"), run("b", params={})]
    show(Comparison(runs, pairs.judged(runs), "", "", "http://server/#/"))
    out = capsys.readouterr().out
    assert "[red]x[/red]" in out
    assert "b (bbbbbbbb): no params" in out
    assert out.splitlines()[-1] == "see: http://server/#/"
