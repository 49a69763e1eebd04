"""What is written while training runs: whole, the same bits as the training state, readable later."""

from __future__ import annotations

from pathlib import Path

from tests.training import children

SAMPLE = Path(__file__).parents[1] / "data" / "checkpoint-format-1" / "step-0000000041"


def test_models_saved_at_full_speed_hold_the_tensors_of_their_state(tmp_path: Path) -> None:
    """The live model changes meanwhile; what is in the file is the snapshot, to the bit."""
    assert children.run("tests.training.saving:exported", tmp_path) == 0
    models = children.facts(tmp_path)["models"]
    checkpoints = [each for each in models if each["name"] == "checkpoint"]
    assert len(checkpoints) >= 3
    for each in checkpoints:
        assert each["digest"]
        assert len(each["tensors"]) > 20
        assert all(each["tensors"]), each
        assert each["iterations"] == each["step"]
    final = [each for each in models if each["name"] == "model"]
    assert [each["iterations"] for each in final] == [300]


def test_a_checkpoint_of_the_first_format_can_be_read(tmp_path: Path) -> None:
    assert children.run("tests.training.saving:read_sample", tmp_path, sample=str(SAMPLE)) == 0
    facts = children.facts(tmp_path)
    assert facts["meta"]["position"] == {"epoch": 2, "step": 1, "global_step": 41}
    assert facts["types"] == {
        "model/0000/dense/kernel": "float32",
        "model/0001/dense/bias": "float16",
        "optimizer/0000/adam/iteration": "int64",
        "optimizer/0001/adam/kernel": "bfloat16",
    }
    assert facts["values"]["model/0001/dense/bias"] == [1.0, -2.0, 3.0]
    assert facts["values"]["optimizer/0000/adam/iteration"] == 41
    assert facts["values"]["optimizer/0001/adam/kernel"] == [0.10009765625, 2.5]


def test_a_full_disk_costs_checkpoints_and_nothing_else(tmp_path: Path) -> None:
    assert children.run("tests.training.saving:full_disk", tmp_path) == 0
    facts = children.facts(tmp_path)
    assert set(facts["faults"]) == {"disk_full"}
    assert set(facts["resumptions"]) == {"in_place"}
    assert facts["attempts"] == 1
    assert facts["saved"][-1] == 15, "saving went on when there was room again"
    assert not [name for name in facts["kept"] if name.startswith(".")]
    assert set(facts["readable"]) == {2}
