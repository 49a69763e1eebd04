"""The same over a tracking server: sampled histories, deep links, the entry point of the project."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_resilience.cli.main import call
from tests.edges.compare_store import Store, improving
from tests.edges.tracking_tools import ENVIRON, Server

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Store]]:
    folder = tmp_path_factory.mktemp("server")
    store, started = Store(folder), Server(folder)
    started.database = store.database
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
