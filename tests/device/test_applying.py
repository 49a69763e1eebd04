"""Device settings in force: what they do, and what is said where they come too late or do not apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training import children


def told(folder: Path, target: str) -> Any:
    assert children.run(f"tests.device.trials:{target}", folder) == 0, children.output(folder)
    return children.facts(folder)


def test_settings_hold_from_the_start_and_are_a_warning_when_too_late(tmp_path: Path) -> None:
    """Threads and determinism; memory of a GPU that is not there; never an exception."""
    facts = told(tmp_path, "early")
    first = facts["first"]
    assert {name: done for name, (done, _) in first.items()} == {
        "threads": True,
        "deterministic": True,
        "memory_growth": False,
        "memory_limit": False,
    }
    assert (facts["threads"], facts["deterministic"]) == ([3, 2], True)
    assert "there is no GPU here" in first["memory_growth"][1]
    assert facts["warned"] == [first["memory_growth"][1], first["memory_limit"][1]]
    assert facts["same"]["threads"][0], "what is so already is no trouble"
    done, text = facts["late"]["threads"]
    assert not done and "too late" in text and "3 and 2" in text
    assert facts["late_warned"] == [text]


@pytest.mark.full
def test_layers_compute_in_half_precision_and_learn_the_digits_all_the_same(tmp_path: Path) -> None:
    """Weights stay float32, float16 has its loss scaled; what does not go together is said."""
    facts = told(tmp_path, "precise")
    for precision, kind in (("none", "float32"), ("mixed_bfloat16", "bfloat16"), ("mixed_float16", "float16")):
        found = facts[precision]
        assert (found["computes"], found["keeps"]) == (kind, "float32")
        assert found["accuracy"] > 0.85
        assert found["optimizer"] == ("LossScaleOptimizer" if kind == "float16" else "Adam")
        assert not any("half precision" in text for text in found["suits"])
    assert facts["none"]["told"] == {} and facts["none"]["suits"] == []
    assert any('dtype="float32"' in text for text in facts["narrow"])
    (text,) = facts["elsewhere"]
    assert "no layer of the model uses mixed_bfloat16" in text


@pytest.mark.full
def test_xla_compiles_what_it_can(tmp_path: Path) -> None:
    """The result is that of the same steps but for rounding; elsewhere the model is left as it is, and that is said."""
    facts = told(tmp_path, "compiled")
    assert (facts["plain"], facts["jit"], facts["told"]["xla"][0]) == (False, True, True)
    for one, other in zip(*facts["losses"], strict=True):
        assert one == pytest.approx(other, rel=1e-3)
    assert "run_eagerly" in facts["eager"]["xla"][1]
    assert "cannot compile random_rotation" in facts["unfit"]["xla"][1]
    assert not facts["left"]
