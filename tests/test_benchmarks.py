"""The benchmarks: their page is made of their numbers, and each can be run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.edges.main_job import run

ROOT = Path(__file__).parents[1]
RUN = (sys.executable, str(ROOT / "scripts" / "benchmarks" / "run.py"))
PAGE = ROOT / "docs" / "benchmarks.md"


def test_the_page_is_made_of_the_numbers_and_of_nothing_else(tmp_path: Path) -> None:
    """What is kept in docs/benchmarks/ gives docs/benchmarks.md, to the last character."""
    ended = run(tmp_path, *RUN, "report", "--check", timeout=120)
    assert ended.code == 0, ended.output


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["overhead", "peers", "checkpoints", "tracking", "diagnostics"])
def test_each_can_be_run_and_a_quick_one_keeps_nothing(tmp_path: Path, name: str) -> None:
    """A sample of it ends well, with numbers; the page and what it is made of stay as they are."""
    kept = {path: path.read_text() for path in [PAGE, *(ROOT / "docs" / "benchmarks").iterdir()]}
    ended = run(tmp_path, *RUN, name, "--quick", timeout=800)
    assert ended.code == 0, ended.output
    told = json.loads(ended.output[ended.output.index('{\n "format"') :])
    assert told["machine"]["versions"]
    assert {path: path.read_text() for path in kept} == kept
