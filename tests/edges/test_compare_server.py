"""The same over a tracking server: sampled histories, deep links, the entry point of the project; and MLflow's own
pages in a real browser, with a failed and a recovered job in them, told by their senders."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mlflow.tracking import MlflowClient

from mlflow_resilience.cli.main import call
from tests.edges.compare_store import Store, improving
from tests.edges.screenshots import keep
from tests.edges.test_report_browser import browser
from tests.edges.tracking_tools import ENVIRON, Job, Server

__all__ = ["browser"]
ROOT = Path(__file__).parents[2]
MESSAGE = '图像损坏: label <script>alert(1)</script> is "strange"'
QUIET = (
    "localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false');"
    "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true');"
)
PATIENCE = 60_000.0  # milliseconds


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Store]]:
    folder = tmp_path_factory.mktemp("server")
    store = Store(folder)
    started = Server(folder, store.uri)
    started.start()
    yield started, store
    started.kill()
    store.close()


@pytest.fixture
def runs(server: tuple[Server, Store]) -> list[str]:
    store = server[1]
    long = {"loss": [(step, 1 / (step + 1)) for step in range(10_000)]}
    return [store.job("a"), store.job("b", digest="x"), store.run("long", curves=improving() | long)]


def test_links_lead_to_the_server(
    server: tuple[Server, Store], runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    assert call(["compare", *runs, "--tracking-uri", server[0].uri, "-o", "page.html"]) == 0
    out, page = capsys.readouterr().out, Path("page.html").read_text()
    assert "same within noise: val_accuracy 0.8979" in out
    assert "noise up to" in out, "the histories were read"
    assert f"see: {server[0].uri}/#/experiments/1/runs/" in out
    assert all(f'href="{server[0].uri}/#/experiments/1/runs/{run}"' in page for run in runs)
    assert len(page) < 400_000, "long curves are sampled"
    assert call(["report", runs[2], "--tracking-uri", server[0].uri]) == 0
    assert "loss 0.0001" in capsys.readouterr().out


def test_as_an_entry_point(server: tuple[Server, Store], runs: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mlflow", "run", str(ROOT), "--env-manager", "local", "-e", "compare",
               "-P", f"runs={runs[0]},{runs[1]}", "--experiment-id", server[1].experiment]  # fmt: skip
    environ = {**ENVIRON, "MLFLOW_TRACKING_URI": server[0].uri, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    ended = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "same within noise" in ended.stdout
    found = server[1].client.search_runs([server[1].experiment], "tags.`mlflow.project.entryPoint` = 'compare'")
    assert [run.info.status for run in found] == ["FINISHED"]
    assert found[0].data.tags["resilience.comparison"] == "true"


def curves(job: Job, attempt: int, first: int, last: int) -> None:
    ms = int(time.time() * 1000)
    job.points(attempt, first + 1, last)
    for step in range(first - first % 10 + 10, last + 1, 10):
        values = {"loss": 2 * math.exp(-step / 30), "val_accuracy": 1 - math.exp(-step / 30)}
        job.append("points", attempt=attempt, points=[[key, step, value, ms + step] for key, value in values.items()])


def played(home: Path, uri: str, name: str, *, recovers: bool) -> Job:
    """A job that meets a fault in step 30; one that recovers goes on with smaller pieces."""
    job = Job(home, uri, owned=False, experiment="ui", run_name=name, params={"epochs": "6"})
    job.attempt(1, accumulation=1)
    curves(job, 1, 0, 30)
    job.checkpoint(1, 20)
    job.fault(1, 1, 30, message=MESSAGE)
    job.end_attempt(1, "FAILED", 30)
    if recovers:
        job.attempt(2, 20, accumulation=2)
        curves(job, 2, 20, 60)
        job.checkpoint(2, 60)
        job.end_attempt(2, "FINISHED", 60)
    job.end("recovered" if recovers else "failed", 0 if recovers else 1)
    job.start_sender()
    return job


@pytest.fixture(scope="module")
def told(server: tuple[Server, Store]) -> tuple[str, str, dict[str, str]]:
    """The server's address, the experiment, and the runs by name, an attempt too: a failed and a recovered job."""
    started, _ = server
    home = started.folder / "home"
    jobs = [played(home, started.uri, f"the {'recovered' if each else 'failed'} one", recovers=each)
            for each in (True, False)]  # fmt: skip
    assert [job.finish(120) for job in jobs] == [0, 0], [job.log() for job in jobs]
    client = MlflowClient(started.uri)
    runs = {job.state["runs"]["job"]: job for job in jobs}
    found = {client.get_run(run).info.run_name: run for run in runs}
    found["attempt"] = runs[found["the failed one"]].state["runs"]["1"]
    return started.uri, client.get_experiment_by_name("ui").experiment_id, found


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1700, "height": 900})
    context.add_init_script(QUIET)
    context.set_default_timeout(PATIENCE)
    opened = context.new_page()
    dialogs: list[str] = []
    opened.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    yield opened
    context.close()
    assert dialogs == [], "a text of the job's was run"


def test_outcome_and_failure_classes_are_columns_of_the_run_list(page: Any, told: Any) -> None:
    server, experiment, _ = told
    page.goto(f"{server}/#/experiments/{experiment}/runs")
    page.get_by_text("the failed one").wait_for()
    page.get_by_role("button", name="Columns").click()
    for name in ("resilience.outcome", "resilience.failure_classes"):
        page.get_by_placeholder("Search columns").fill(name)
        page.get_by_title(name, exact=True).click()
    page.keyboard.press("Escape")
    for text in ("recovered", "failed", "transient_io"):
        page.locator(".ag-cell").get_by_text(text, exact=True).first.wait_for()
    keep(page, "ui-run-list", whole=False)


def test_the_compare_page_has_both_runs_and_a_metric_both_curves(page: Any, told: Any) -> None:
    server, experiment, runs = told
    ids = quote(json.dumps([runs["the recovered one"], runs["the failed one"]]))
    experiments = quote(json.dumps([experiment]))
    page.goto(f"{server}/#/compare-runs?runs={ids}&experiments={experiments}")
    page.get_by_text("Comparing 2 Runs").first.wait_for()
    for name in ("the recovered one", "the failed one"):
        page.get_by_text(name).first.wait_for()
    page.goto(  # where a click on a metric of that page leads
        f"{server}/#/metric?runs={ids}&metric=%22val_accuracy%22&experiments={experiments}"
        "&plot_metric_keys=%5B%22val_accuracy%22%5D&plot_layout=%7B%7D&x_axis=step&y_axis_scale=linear"
        "&line_smoothness=1&show_point=false&deselected_curves=%5B%5D&last_linear_y_axis_range=%5B%5D"
    )
    page.wait_for_function(
        """() => new Set([...document.querySelectorAll('.scatterlayer .trace path.js-line')]
            .map(each => getComputedStyle(each).stroke)).size === 2"""
    )
    keep(page, "ui-compare", whole=False)


@pytest.mark.full
def test_the_run_has_its_description_on_top_and_previews_of_report_and_plots(page: Any, told: Any) -> None:
    server, experiment, runs = told
    run = f"{server}/#/experiments/{experiment}/runs/{runs['the recovered one']}"
    page.goto(run)
    page.get_by_text("Result: The same result within rounding").first.wait_for()
    page.goto(f"{run}/artifacts/resilience/report.html")
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="Recovered: finished in 2 attempts after 1 fault").wait_for()
    assert frame.get_by_text("Is the result still good?").is_visible()
    keep(page, "ui-report", whole=False)
    page.get_by_text("plots", exact=True).click()
    page.get_by_text("training_curves.png", exact=True).click()
    page.wait_for_function("[...document.images].some(each => each.naturalWidth > 400)")
    keep(page, "ui-plot", whole=False)


def test_the_attempt_has_its_exception(page: Any, told: Any) -> None:
    """As text, whatever stands in it."""
    server, experiment, runs = told
    page.goto(f"{server}/#/experiments/{experiment}/runs/{runs['attempt']}")
    page.get_by_text("resilience.exception_type").first.wait_for()
    page.get_by_text("图像损坏").first.wait_for()
    assert page.get_by_text("RuntimeError").count()
    keep(page, "ui-attempt", whole=False)
