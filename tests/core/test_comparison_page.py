"""The comparison's page and figure: whatever stands in the runs, it is text."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from mlflow_resilience.comparison import links
from mlflow_resilience.comparison.page import Places, render
from mlflow_resilience.comparison.pairs import judged
from mlflow_resilience.comparison.plots import overlay_svg
from mlflow_resilience.comparison.values import ComparedRun

HOSTILE = (
    '<script>alert("x")</script>',
    "\"><img src=x onerror=alert('x')>",
    "</style></title></svg><script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "图像损坏, 无法解码",
    "\u202egnp.elif שלום",
    "x" * 20_000,
    "\x1b[31mred\x1b[0m\x00\x07",
    "$x^2$ #0073b3 `code`",
)


def hostile(text: str) -> list[ComparedRun]:
    """Two runs with this text wherever a text can be."""
    points = [(step, 1 / step) for step in range(1, 10)]
    one = ComparedRun(
        run_id=text, experiment_id=text, name=text, outcome=text, failure_classes=(text,), attempt_lines=(text,),
        last_words=text, metrics={text: 0.1}, params={text: text}, digest=text, resume_key=text, changes=(text,),
        not_reproducible=text, place={text: text}, curves={text: points},
    )  # fmt: skip
    return [one, replace(one, run_id="b", outcome="clean", params={text: "other"}), replace(one, outcome="clean")]


def page(runs: list[ComparedRun], title: str = "a comparison") -> str:
    places = links.places("http://ada:secret@mlflow.example:5000/team/", runs, "mlflow server")
    return render(title, runs, judged(runs), places, overlay_svg(runs), note=title)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_breaks_out(text: str) -> None:
    made = page(hostile(text), text)
    for tag in ("<script", "<img", "onerror=alert('x')>", "\x00", "\x1b"):
        assert tag not in made
    assert made.count("</style>") == made.count("</title>") == made.count("<h1>") == 1
    assert "{{ 7 * 7 }}" not in text or "{{ 7 * 7 }}" in made
    if text.startswith("图"):
        assert text in made


@pytest.mark.parametrize("text", HOSTILE)
def test_the_figure_is_whole_xml(text: str) -> None:
    drawn = overlay_svg(hostile(text))
    assert drawn is not None
    ET.fromstring(drawn)
    assert "var(--run-0, #0073b3)" in drawn


@pytest.mark.parametrize("count", [0, 1])
def test_few_runs(count: int) -> None:
    made = page(hostile("a")[1 : 1 + count])
    assert ("There is only one run" if count else "There are no runs") in made


def test_curves_without_a_number_and_long_ones_are_drawn() -> None:
    run = hostile("a")[0]
    nothing = replace(run, curves={"loss": [(step, math.nan) for step in range(5)]})
    long = replace(run, curves={"loss": [(step, 1 / (step + 1)) for step in range(10_000)]})
    drawn = overlay_svg([nothing, long])
    assert drawn is not None and len(drawn) < 300_000
    assert overlay_svg([replace(run, curves={})]) is overlay_svg([]) is None


def test_links_lead_to_the_server_and_nowhere_else() -> None:
    made = page(hostile('"><b>')[:2])
    assert "secret" not in made
    addresses = re.findall(r' href="([^"]*)"', made)
    assert all(each.startswith(("http://mlflow.example:5000/team/#/", "data:,")) for each in addresses)
    assert any("compare-runs?runs=" in each for each in addresses)
    assert links.places("sqlite:///a.db", hostile("a"), "mlflow server") == Places(opened_by="mlflow server")
    for scheme in ("javascript:alert(1)", "file:///x", "postgresql://ada:secret@db/x"):
        assert links.base(scheme) == ""
