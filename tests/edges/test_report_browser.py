"""The page of a job in a real browser: light, dark, narrow, and with hostile texts in it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.report import render
from tests.edges.screenshots import keep

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

_spec = importlib.util.spec_from_file_location("example_job", Path(__file__).parents[1] / "core" / "example_job.py")
assert _spec and _spec.loader
example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example)

SIZES = [
    (1280, "light"),
    (400, "dark"),
    pytest.param(1280, "dark", marks=pytest.mark.full),
    pytest.param(400, "light", marks=pytest.mark.full),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None and os.environ.get("CI"):
        pytest.fail("no Chromium, though this is where the pages must be looked at")
    if BROWSER is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install playwright)"
    )
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


class Visit:
    """One page that was opened, and all that it did."""

    def __init__(self, browser: Any, file: Path, width: int, scheme: str) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.requests: list[str] = []
        self.noise: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.noise.append(message.text))
        self.page.on("pageerror", lambda error: self.noise.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.goto(file.as_uri())
        self.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")

    def _dismiss(self, dialog: Any) -> None:
        self.noise.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Any]:
    opened: list[Visit] = []

    def go(record: Any, width: int = 1280, scheme: str = "light") -> Visit:
        file = tmp_path / "report.html"
        file.write_text(render(record), encoding="utf-8")
        opened.append(Visit(browser, file, width, scheme))
        return opened[-1]

    yield go
    for each in opened:
        assert each.requests == [(tmp_path / "report.html").as_uri()], "the page asked for something"
        assert each.noise == []
        each.page.close()


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_it_fits_and_is_quiet(visit: Any, width: int, scheme: str) -> None:
    """No sideways scrolling, nothing on the console, no request but the page itself (see the fixture)."""
    page = visit(example.record(), width, scheme).page
    keep(page, f"report-{width}-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = page.evaluate(
        """width => [...document.querySelectorAll('main *')].filter(each => {
            const box = each.getBoundingClientRect();
            return box.width && box.right > width + 1 && !each.closest('pre, .message, svg, .hidden');
        }).map(each => each.tagName + '.' + each.className)""",
        width,
    )
    assert beyond == []


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_texts_can_be_read(visit: Any, width: int, scheme: str) -> None:
    """Contrast of at least 4.5 for every text, and no letter in a drawing smaller than a phone can show."""
    page = visit(example.record(), width, scheme).page
    poor = page.evaluate(
        """() => {
        const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
        const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const behind = each => {
            for (; each; each = each.parentElement) {
                const colour = parse(getComputedStyle(each).backgroundColor);
                if (colour.length === 3 || colour[3] === 1) return colour;
            }
            return [255, 255, 255];
        };
        const poor = [];
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
            const each = walk.currentNode.parentElement;
            if (!walk.currentNode.data.trim() || !each.getClientRects().length || each.closest('style')) continue;
            const style = getComputedStyle(each);
            const one = light(parse(each.closest('svg') ? style.fill : style.color)), two = light(behind(each));
            const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
            if (ratio < 4.5) poor.push([walk.currentNode.data.trim().slice(0, 40), ratio.toFixed(2)]);
        }
        return poor;
    }"""
    )
    assert poor == []
    heights = page.evaluate(
        """() => [...document.querySelectorAll('svg text')].filter(each => each.getClientRects().length)
            .map(each => parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().d)"""
    )
    assert heights and min(heights) >= 8.5


def test_headings_and_text_alternatives(visit: Any) -> None:
    """One first heading, sections named by their own, every drawing that is shown with its alternative."""
    page = visit(example.record()).page
    assert page.locator("h1").count() == 1
    assert page.get_by_role("heading", level=2).count() >= 9
    for width, shown in ((1280, 2), (400, 2)):
        page.set_viewport_size({"width": width, "height": 900})
        drawings = page.get_by_role("img").all()
        assert len(drawings) == shown
        assert all(len(each.get_attribute("aria-label")) > 60 for each in drawings)
    assert page.title() == "wise-owl-17: recovered"
    assert page.get_by_role("table").count() >= 3


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=pytest.mark.full if number > 2 else ()) for number in range(9)]
)
def test_hostile_texts_do_nothing(visit: Any, number: int) -> None:
    """Nothing runs, nothing is fetched, nothing breaks out of the page, at any width."""
    page = visit(example.poisoned(example.HOSTILE[number]), 400).page
    assert page.evaluate("document.querySelectorAll('script, img, iframe, a, form').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.locator("footer").is_visible()


def test_dark_is_dark(visit: Any) -> None:
    colours = [
        visit(example.record(), 1280, scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert colours == ["rgb(246, 247, 249)", "rgb(15, 18, 22)"]
