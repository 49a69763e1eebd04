"""`compress` as a parameter of the main job: from the command line to what MLflow has in the end."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.edges.main_job import Ended, train

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "compression.md").read_text()
RECIPE = """
import keras, numpy as np

def load_data(params):
    x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
    y = (x[:, 0] + x[:, 1] > 0).astype("int32")
    return (x[:200], y[:200]), (x[200:], y[200:])

def build_model(params):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(2, "softmax")])
    optimizer = keras.optimizers.Adam(params["learning_rate"])
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model

def callbacks(params):
    return []
"""


def models(ended: Ended) -> dict[str, Any]:
    found = ended.client.search_logged_models(["0"])
    assert len({each.name for each in found if each.name != "checkpoint"}) == len(
        [each for each in found if each.name != "checkpoint"]
    ), "each once"
    return {each.name: each for each in found}


def run(folder: Path, recipe: str, *options: str) -> Ended:
    folder.mkdir(exist_ok=True)
    (folder / "recipe.py").write_text(recipe)
    options = ("recipe.py", "--epochs", "2", *options)
    return train(folder, *options, timeout=300, MLFLOW_RESILIENCE_HOME=str(folder / "home"))


def test_the_guides_function_is_called_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """On arrays, with a model that was compiled."""
    (code,) = re.findall(r"^```py\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(RECIPE, names)
    ((x, y), (x_val, y_val)), model = names["load_data"]({}), names["build_model"]({"learning_rate": 0.01})
    exec(compile(code, "compression.md", "exec"), dict(model=model, x=x, y=y, x_val=x_val, y_val=y_val))
    assert "smaller/pruned.keras" in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_job_logs_each_model_and_one_table(tmp_path: Path) -> None:
    """Each is READY and loads; the table is one for MLflow; without the word nothing is made."""
    ended = run(tmp_path / "asked", RECIPE, "--compress", "prune:0.5,int8,litert")
    assert ended.code == 0, ended.output
    found, (job,) = models(ended), ended.jobs()
    assert {"model", "model-pruned", "model-int8", "model-litert"} <= set(found)
    assert all(each.status == "READY" for each in found.values())
    assert "pruned: loss" in ended.output and "compressed, from 56 records: pruned, int8, litert" in ended.output
    get = lambda path: Path(ended.client.download_artifacts(job.info.run_id, path, str(ended.folder)))  # noqa: E731
    table = json.loads(get("resilience/compression.json").read_text())
    assert [row[0] for row in table["data"]] == ["original", "pruned", "int8", "litert"]
    tables = {each["path"] for each in json.loads(job.data.tags["mlflow.loggedArtifacts"])}
    assert tables == {"resilience/attempts.json", "resilience/compression.json"}
    assert job.data.tags["resilience.outcome"] == "clean" and job.data.params["compress"] == "prune:0.5,int8,litert"
    plain = run(tmp_path / "plain", RECIPE)
    assert {name for name in models(plain) if name != "checkpoint"} == {"model"}
    assert "compress" not in plain.output
    assert models(plain)["model"].tags["resilience.digest"] == found["model"].tags["resilience.digest"]


def dying(module: str, function: str, times: int, after: int) -> str:
    """The recipe, in which the process dies in so many calls of a function of ours, beginning with one."""
    return RECIPE.replace(
        "def callbacks",
        f"""
import importlib, os, pathlib, signal
module = importlib.import_module({module!r})
plain = module.{function}
def struck(*args, **more):
    mark = pathlib.Path("struck")
    mark.write_text((mark.read_text() if mark.exists() else "") + "x")
    if {after} < len(mark.read_text()) <= {after + times}:
        args[0].journal.flush() if hasattr(args[0], "journal") else None
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(*args, **more)
module.{function} = struck

def callbacks""",
    )


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("module", "function", "after"),
    [("mlflow_resilience.compression.compressing", "compress", 0), ("mlflow_resilience.shrinking", "_log_model", 1)],
)
def test_a_process_that_dies_meanwhile_is_started_again(module: str, function: str, after: int, tmp_path: Path) -> None:
    """Before anything was made, and when one of two was logged: each model is logged once, the trained one the same."""
    ended = run(tmp_path / "struck", dying(module, function, 1, after), "--compress", "prune:0.5,int8")
    assert ended.code == 0, ended.output
    found, (job,) = models(ended), ended.jobs()
    assert {"model", "model-pruned", "model-int8"} <= set(found)
    assert job.data.tags["resilience.outcome"] == "recovered"
    plain = run(tmp_path / "plain", RECIPE)
    assert models(plain)["model"].tags["resilience.digest"] == found["model"].tags["resilience.digest"]


@pytest.mark.full
@pytest.mark.timeout(600)
def test_what_kills_every_process_is_left_after_the_second(tmp_path: Path) -> None:
    """The training has gone well, and its job ends well."""
    ended = run(
        tmp_path / "struck", dying("mlflow_resilience.compression.compressing", "compress", 9, 0), "--compress", "int8"
    )
    assert ended.code == 0, ended.output
    assert "the model is not compressed: 2 processes have died of it" in ended.output
    assert {name for name in models(ended) if name != "checkpoint"} == {"model"}


@pytest.mark.full
@pytest.mark.timeout(600)
def test_what_goes_wrong_takes_nothing_from_the_training(tmp_path: Path) -> None:
    """A model that cannot be copied: the job has finished, and says what it could not do."""
    own = RECIPE.replace("model = keras.Sequential(", "class Own(keras.Sequential): pass\n    model = Own(")
    ended = run(tmp_path / "own", own, "--compress", "int8")
    assert ended.code == 0, ended.output
    assert "the model could not be compressed: UsageError" in ended.output
    (job,) = ended.jobs()
    assert (job.data.tags["resilience.outcome"], job.info.status) == ("clean", "FINISHED")
    assert "model" in models(ended)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_default_recipe_loses_less_than_a_point(tmp_path: Path) -> None:
    """Pruned by half and in int8, against the original's accuracy."""
    ended = train(tmp_path, "--compress", "prune:0.5,int8", timeout=600, MLFLOW_RESILIENCE_HOME=str(tmp_path / "home"))
    assert ended.code == 0, ended.output
    (job,) = ended.jobs()
    path = ended.client.download_artifacts(job.info.run_id, "resilience/compression.json", str(tmp_path))
    table = json.loads(Path(path).read_text())
    at = table["columns"].index("accuracy")
    original, *made = (row[at] for row in table["data"])
    assert len(made) == 2 and min(made) > original - 0.01
