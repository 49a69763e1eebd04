"""Less memory for the data, the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.training import children


def test_a_lighter_pipeline_gives_the_same_batches(tmp_path: Path) -> None:
    code = children.run("tests.training.lighter_facts:compare", tmp_path)
    assert code == 0, children.output(tmp_path)
    facts: dict[str, Any] = children.facts(tmp_path)
    assert facts["lighter"] == facts["plain"]
    assert facts["amounts"] == [1, 1]
    assert facts["validation"] == [4, 4, 4, 4, 4]
