"""The guide's snippets, as they are written."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.pipelines import throughput
from tests.edges.main_job import train

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "pipelines.md").read_text()
RECIPE, ARRAYS, PACE = re.findall(r"^```py\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
PARAMS = {"batch_size": 4, "seed": 0, "learning_rate": 0.01, "epochs": 1}


def test_arrays_and_pace_are_measured_as_the_guide_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The second snippet's pipeline goes into the third."""
    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", "binary_crossentropy")
    names: dict[str, Any] = {"model": model}
    exec(compile(ARRAYS, "pipelines.md", "exec"), names)
    names["dataset"] = names["found"].train
    exec(compile(PACE, "pipelines.md", "exec"), names)
    assert capsys.readouterr().out.startswith("bound by ")
    assert isinstance(names["found"], type(throughput(names["dataset"], model, seconds=0.01)))


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_guides_recipe_survives_a_kill_and_a_damaged_picture(pictures: Path, tmp_path: Path) -> None:
    """The damaged file is named, and left out of the result of a job that was killed as of one that was not."""
    path = pictures / "cat" / "04.jpg"
    path.write_bytes(path.read_bytes()[:60])
    losses = []
    for name, fault in (("struck", "kill@4"), ("clean", "none")):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copytree(pictures, folder / "photos")
        (folder / "recipe.py").write_text(RECIPE)
        options = ("recipe.py", "--epochs", "2", "--batch-size", "4", "--checkpoint-every", "2steps", "--fault", fault)
        ended = train(folder, *options, timeout=250, MLFLOW_RESILIENCE_HOME=str(folder / "home"))
        assert ended.code == 0, ended.output
        assert "04.jpg" in ended.output
        (job,) = ended.jobs()
        assert "04.jpg" in job.data.tags["resilience.semantic_changes"]
        losses.append(job.data.metrics["loss"])
    assert losses[0] == losses[1]
