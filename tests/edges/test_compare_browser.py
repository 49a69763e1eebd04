"""The comparison's page in a real browser: light, dark, narrow, and with hostile texts in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.comparison.values import ComparedRun
from tests.core.test_comparison import run
from tests.core.test_comparison_page import HOSTILE, hostile, page
from tests.edges.screenshots import keep
from tests.edges.test_report_browser import SIZES, Visit, browser

__all__ = ["browser"]


def example() -> list[ComparedRun]:
    lines = tuple(f"{number}. host_oom (ResourceExhaustedError) at step {number * 50}" for number in range(1, 4))
    return [
        run("a"),
        run("b", outcome="recovered", attempts=3, faults=2, failure_classes=("host_oom",), attempt_lines=lines),
        run("c", 0.3, digest="x", outcome="recovered", changes=("learning rate halved at step 120",)),
        run("d", outcome="failed", failure_classes=("bad_data",), last_words="ValueError: 图像损坏"),
        ComparedRun(run_id="e" * 32, name="foreign", outcome="finished", metrics={"val_loss": 1.02}),
    ]


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Any]:
    opened: list[Visit] = []

    def go(runs: list[ComparedRun], width: int = 1280, scheme: str = "light") -> Any:
        file = tmp_path / "comparison.html"
        file.write_text(page(runs), encoding="utf-8")
        opened.append(Visit(browser, file, width, scheme))
        return opened[-1].page

    yield go
    for each in opened:
        assert each.requests == [(tmp_path / "comparison.html").as_uri()], "the page asked for something"
        assert each.noise == []
        each.page.close()


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_it_fits_is_quiet_and_can_be_read(visit: Any, width: int, scheme: str) -> None:
    shown = visit(example(), width, scheme)
    keep(shown, f"comparison-{width}-{scheme}")
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.get_by_role("heading", level=1).count() == 1
    assert shown.get_by_role("heading", level=2).count() >= 5
    (drawing,) = shown.get_by_role("img").all()
    assert "val_loss: a (aaaaaaaa) ends at 1.01" in drawing.get_attribute("aria-label")
    assert shown.get_by_text("same result bit for bit", exact=True).is_visible()
    assert shown.get_by_text("ValueError: 图像损坏").is_visible()
    heights = shown.evaluate(
        """() => [...document.querySelectorAll('svg text')].filter(each => each.getClientRects().length)
            .map(each => parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().d)"""
    )
    assert heights and min(heights) >= 8.5
    cut = shown.evaluate(
        """() => [...document.querySelectorAll('.badge')]
            .filter(each => each.getClientRects().length > 1 || each.getBoundingClientRect().right > innerWidth)
            .map(each => each.textContent)"""
    )
    assert cut == []


def test_links_open_elsewhere_and_nothing_else_does(visit: Any) -> None:
    shown = visit(example())
    links = shown.evaluate("[...document.querySelectorAll('a')].map(each => [each.href, each.target, each.rel])")
    assert len(links) == 6
    assert all(each[0].startswith("http://mlflow.example:5000/team/#/") for each in links)
    assert all(each[1:] == ["_blank", "noopener noreferrer"] for each in links)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_do_nothing(visit: Any, text: str) -> None:
    shown = visit(hostile(text), 400)
    assert shown.evaluate("document.querySelectorAll('script, img, iframe, form').length") == 0
    assert shown.evaluate("document.documentElement.scrollWidth") <= 400
    assert shown.get_by_role("heading", name="How this was judged").is_visible()
