"""Remedies as parameters of the main job: from the command line to what MLflow has in the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.edges.main_job import Ended, train

ASKED = {
    "schedule": "warmup:20,cosine",
    "early_stopping": "val_loss:3",
    "clip": "norm:1.0",
    "regularise": "l2:1e-4,batchnorm",
    "augment": "rotate:0.05",
    "precision": "mixed_bfloat16",
    "device": "threads:2,memory_growth",
    "diagnostics": "20",
}
OPTIONS = [word for name, text in ASKED.items() for word in (f"--{name.replace('_', '-')}", text)]

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def digest(ended: Ended) -> str:
    """Of the final model."""
    models = ended.client.search_logged_models(["0"], filter_string="name = 'model'")
    (model,) = [each for each in models if each.name == "model"]
    return str(model.tags["resilience.digest"])


def events(ended: Ended) -> list[dict[str, str]]:
    (job,) = ended.jobs()
    path = ended.client.download_artifacts(job.info.run_id, "resilience/events.jsonl", str(ended.folder))
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_job_with_every_remedy_is_killed_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Each remedy is a param and a line, told once however many processes there were."""
    ends = {}
    for name, fault in (("struck", "kill@60"), ("clean", "none")):
        (tmp_path / name).mkdir()
        home = str(tmp_path / name / "home")
        ends[name] = train(
            tmp_path / name, "--epochs", "2", *OPTIONS, "--fault", fault, timeout=400, MLFLOW_RESILIENCE_HOME=home
        )
        assert ends[name].code == 0, ends[name].output
    assert digest(ends["struck"]) == digest(ends["clean"])
    (job,) = ends["struck"].jobs()
    assert {name: job.data.params[name] for name in ASKED} == ASKED
    told = [(each.get("name"), each.get("text")) for each in events(ends["struck"])]
    remedies = [text for name, text in told if name == "remedy"]
    assert len(remedies) == len(set(remedies)) == 6
    assert "learning rate 0.002: warm-up over 20 steps, then cosine to 0 over 70 steps" in remedies
    assert ("device_setting", "2 threads within an op, 2 between ops") in told
    assert any(name == "device_warning" and "there is no GPU" in str(text) for name, text in told)
    for text in remedies:
        assert ends["struck"].output.count(text) == 1


def test_what_the_data_or_the_model_does_not_allow_is_one_line_and_code_2(tmp_path: Path) -> None:
    """It is found with the recipe's model, before training."""
    ended = train(tmp_path, "--early-stopping", "val_los:3", MLFLOW_RESILIENCE_HOME=str(tmp_path / "home"))
    assert ended.code == 2, ended.output
    assert "early_stopping: val_los is not measured in this training" in ended.output
    assert "Traceback" not in ended.output
