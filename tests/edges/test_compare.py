"""`mlflow-resilience compare` and `report` over a store: what a user types, and what is found in MLflow after it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

from mlflow_resilience.cli.main import call
from tests.core import example_job
from tests.edges.compare_store import Store, improving

HOSTILE = '<script>alert("x")</script> 图像损坏 \'"'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    made = Store(tmp_path_factory.mktemp("store"))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(None)  # what a test before this one has left in the process
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)
    monkeypatch.setenv("MLFLOW_RESILIENCE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)


@pytest.fixture
def experiment(store: Store, request: pytest.FixtureRequest) -> str:
    """An experiment of the test's own."""
    name = f'it\'s "{request.node.name}"'
    store.experiment = store.client.create_experiment(name, artifact_location=str(store.artifacts))
    return name


def comparisons(store: Store) -> list[Any]:
    return list(store.client.search_runs([store.experiment], "tags.`resilience.comparison` = 'true'"))


def test_a_recovered_run_is_the_clean_one_bit_for_bit(
    store: Store, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = store.job("clean one")
    recovered = store.job("recovered one", "recovered", attempts=2, faults=1, failure_classes="unknown",
                          lineage_lost_steps=7, params={"fault": "raise@60"})  # fmt: skip
    assert call(["compare", clean, recovered, "-o", "page.html"]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns = "run outcome attempts failure classes val_loss val_accuracy loss"
    columns += " lost steps goodput wall time params that differ"
    assert " ".join(lines[0].split()) == columns
    assert "recovered" in lines[2] and "fault=raise@60" in lines[2]
    assert f"clean one ({clean[:8]}) and recovered one ({recovered[:8]}): same result bit for bit" in lines[3]
    (made,) = comparisons(store)
    assert made.info.status == "FINISHED"
    assert "same result bit for bit" in made.data.tags["mlflow.note.content"]
    assert made.info.run_id in lines[4]
    files = {each.path for each in store.client.list_artifacts(made.info.run_id, "resilience")}
    assert files == {"resilience/comparison.html", "resilience/plots"}
    assert "same result bit for bit" in Path("page.html").read_text()


def test_an_experiment_without_its_attempts_and_comparisons(
    store: Store, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = store.job("a job", "recovered", attempts=1)
    store.attempt(job, 1, status="FAILED")
    store.run("foreign", curves={"loss": [(step, 1 / step) for step in range(1, 10_001)]})
    failed = store.job(HOSTILE, "failed", attempts=1, failure_classes="bad_data", **{"attempt.1": HOSTILE},
                       curves={"loss": [(1, 1.0), (2, math.nan)]})  # fmt: skip
    store.attempt(failed, 1, tags={"resilience.exception_message": HOSTILE})
    store.run("gone", stage="deleted")
    for _ in range(2):
        assert call(["compare", "--experiment", experiment, "-o", "page.html"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines[1:4]] == ['<script>alert("x")</script>', "foreign", "a"]
    page = Path("page.html").read_text()
    assert "<script" not in page and "图像损坏" in page
    assert call(["compare", "--experiment", experiment, "--outcome", "failed,recovered", "--no-log"]) == 0
    assert "foreign" not in capsys.readouterr().out
    assert len(comparisons(store)) == 2


def test_none_and_one(store: Store, experiment: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["compare", "--experiment", experiment]) == 0
    assert capsys.readouterr().out.startswith("there are no runs to compare\n")
    store.job("alone")
    assert call(["compare", "--experiment", experiment]) == 0
    assert "alone" in capsys.readouterr().out


def test_deleted_runs_and_attempts_can_be_named(
    store: Store, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, job = store.run("gone", stage="deleted", curves=improving()), store.job("a job")
    assert call(["compare", gone, store.attempt(job, 1), "--no-log"]) == 0
    out = capsys.readouterr().out
    assert "finished, deleted" in out and "a job" in out


def test_the_changes_of_the_whole_lineage_count(
    store: Store, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = store.job("first", "failed", semantic_changes="learning rate halved", lineage_lost_steps=5)
    second = store.job("second", resumed_from_run=first, lineage_lost_steps=8)
    assert call(["compare", store.job("clean one"), second, "--no-log"]) == 0
    out = capsys.readouterr().out
    assert "changed, because recovery changed second" in out and "learning rate halved" in out
    assert " 3 " in out.splitlines()[2]


def test_under_mlflow_run_the_opened_run_is_the_comparison(
    store: Store, experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = f"{store.job('a')}, {store.job('b')}"
    opened = store.run("opened", status="RUNNING")
    monkeypatch.setenv("MLFLOW_RUN_ID", opened)
    assert call(["compare", "--runs", runs, "--experiment", "", "--outcome", ""]) == 0
    (made,) = comparisons(store)
    assert (made.info.run_id, made.info.status) == (opened, "RUNNING"), "its end is for `mlflow run` to say"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "two different runs are needed, or --experiment NAME"),
        (["a" * 32], "two different runs are needed"),
        (["a" * 32, "a" * 32], "two different runs are needed"),
        (["a" * 32, "b" * 32], f"there is no run {'a' * 32}"),
        (["../x'", '"y"'], "there is no run ../x'"),
        (["--experiment", "missing"], "there is no experiment missing"),
        (["--experiment", "x", "a"], "runs and --experiment do not go together"),
        (["a", "b", "--outcome", "failed"], "--outcome goes with --experiment NAME"),
        (["--experiment", "x", "--outcome", "lost"], "outcome=lost: one of clean, recovered, failed"),
        (["a", "b", "--tracking-uri", "sqlite:///nowhere.db"], "there is no tracking database"),
        (["a", "b", "--tracking-uri", "nonsense://x"], "nonsense"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(["compare", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("mlflow-resilience: ") and told in line
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_id_to_resume_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(["train", "--resume", "deadbeef"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mlflow-resilience: there is no run or job deadbeef to resume from")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_run_has_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["report", "a" * 32]) == 2
    assert "and no such run in MLflow" in capsys.readouterr().err


def test_a_report_is_made_from_what_mlflow_holds(
    store: Store, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = store.job("wise-owl-17", "recovered", attempts=5, curves={"loss": [(50, 1.0), (200, 0.25)]})
    store.events(job, [each for each in example_job.entries() if each["kind"] not in ("points", "gauges")])
    replayed = store.attempt(job, 4, status="FAILED", curves={"loss": [(150, 0.5), (171, math.nan)]})
    for name in (job, replayed):
        assert call(["report", name, "-o", "page.html"]) == 0
        assert capsys.readouterr().out.startswith("Recovered: finished in 5 attempts after 5 faults")
    page = Path("page.html").read_text()
    for text in ("wise-owl-17", "learning rate halved from step 150", "device_oom", "loss: train ends at 0.25"):
        assert text in page


def test_a_report_of_a_job_that_left_no_events(
    store: Store, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = store.job("a job", "failed", attempts=1, faults=1)
    tags = {"failure_class": "bad_data", "failure_domain": "workload", "exception_type": "ValueError",
            "exception_message": HOSTILE, "decision": "stop: none"}  # fmt: skip
    store.attempt(job, 1, status="FAILED", tags={f"resilience.{key}": value for key, value in tags.items()},
                  curves=improving())  # fmt: skip
    assert call(["report", job, "-o", "page.html"]) == 0
    assert "faults: bad_data" in capsys.readouterr().out
    page = Path("page.html").read_text()
    assert "图像损坏" in page and "<script" not in page and "val_loss" in page


def test_a_report_of_a_run_that_is_no_job(store: Store, experiment: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["report", store.run("foreign", curves=improving()), "-o", "page.html"]) == 0
    assert "Nothing is called identical here" in capsys.readouterr().out


def test_a_report_of_a_deleted_run_with_long_curves_and_a_strange_name(
    store: Store, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    curves = {"loss": [(step, math.nan if step > 9_000 else 1 / step) for step in range(1, 10_001)]}
    gone = store.run(HOSTILE, stage="deleted", curves=curves, tags={"resilience.outcome": "failed"})
    assert call(["report", gone[:12], "-o", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert "图像损坏" in page and "<script" not in page and len(page.encode()) < 1_000_000


def test_runs_may_be_named_by_the_beginning_of_their_ids(
    store: Store, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = store.job("one"), store.job("other")
    assert call(["compare", one[:9], other[:9], "--no-log"]) == 0
    assert "same result bit for bit" in capsys.readouterr().out
    alike = ["feed" + one[4:], "feed" + other[4:]]
    for before, after in zip((one, other), alike, strict=True):
        store.rename(before, after)
    assert call(["compare", "feed", one[:9], "--no-log"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mlflow-resilience: feed is the beginning of several ids (feed")


def test_a_changed_result_is_held_against_the_clean_run(
    store: Store, experiment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest clean one with the same resume key and epochs in the experiment; MLflow knows it."""
    store.job("another", epochs=3)
    store.job("clean one")
    struck = store.job("struck", "recovered", faults=1, failure_classes="divergence", curves=improving(shift=0.125),
                       semantic_changes="batch of step 100 left out")  # fmt: skip
    fault = {"kind": "fault", "attempt": 1, "number": 1, "failure_class": "divergence", "fault": {}}
    key = {"kind": "tags", "run": "job", "tags": {"resilience.resume_key": "k1"}}
    change = {"kind": "semantic_change", "step": 100, "text": "batch of step 100 left out"}
    job = {"kind": "job", "params": {"epochs": "10"}, "run_name": "struck"}
    store.events(struck, [job, key, {"kind": "attempt", "attempt": 1, "step": 0}, fault, change,
                          {"kind": "job_ended", "outcome": "recovered"}])  # fmt: skip
    assert call(["report", struck, "-o", "page.html"]) == 0
    out = capsys.readouterr().out
    assert "Recovery changed the result: batch of step 100 left out. Held against the clean run clean one (" in out
    assert "Held against the clean run clean one" in Path("page.html").read_text()
