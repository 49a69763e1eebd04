"""The guide's snippets, as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlflow_resilience.core.action import ClipGradients
from tests.training import children

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "remedies.md"


def snippets() -> list[str]:
    return re.findall(r"^```py\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_ladder_of_the_guide_clips_after_the_second_explosion() -> None:
    """It is a policy, whose own recovery is asked first."""
    (code,) = [each for each in snippets() if "ClipGradients" in each]
    names: dict[str, object] = {}
    exec(compile(code, "remedies.md", "exec"), names)
    (recovery,) = names["policy"].recoveries  # type: ignore[attr-defined]
    assert recovery.failure_class == "divergence"
    assert recovery.ladder[0].times == 2
    assert isinstance(recovery.ladder[1].actions[0], ClipGradients)


@pytest.mark.full
@pytest.mark.parametrize("words", ["from mlflow_resilience import remedies", "from mlflow_resilience import device"])
def test_the_functions_are_called_as_the_guide_has_it(tmp_path: Path, words: str) -> None:
    """Each snippet runs from its first line to its last."""
    (code,) = [each for each in snippets() if words in each]
    assert children.run("tests.remedies.trials:run_code", tmp_path, code=code) == 0, children.output(tmp_path)
