"""Recipes are found, looked at without running them, and loaded; what is wrong names file and function."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from mlflow_resilience import recipe
from mlflow_resilience.errors import UsageError

GOOD = "def build_model(params): return params\ndef load_data(params): return 1, 2\n"


def write(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_file_is_loaded_with_its_neighbours_in_reach(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_mine.py").write_text("VALUE = 7\n")
    loaded = recipe.load(write(tmp_path, "import neighbour_of_mine\n" + GOOD))
    assert (loaded.name, loaded.build_model({"a": 1}), loaded.load_data({})) == ("mine", {"a": 1}, (1, 2))
    assert (loaded.callbacks, loaded.fingerprint) == (None, None)


def test_the_digest_tells_that_the_source_has_changed(tmp_path: Path) -> None:
    first = recipe.load(write(tmp_path, GOOD)).source_digest
    assert recipe.load(write(tmp_path, GOOD)).source_digest == first
    assert recipe.load(write(tmp_path, GOOD + "# changed\n")).source_digest != first


def test_a_module_is_loaded_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, GOOD + "def fingerprint(params): return 'mine'\n", "module_of_mine.py")
    loaded = recipe.load("module_of_mine")
    assert loaded.name == "module_of_mine"
    assert loaded.fingerprint is not None
    assert loaded.fingerprint({}) == "mine"


def test_looking_at_a_recipe_does_not_run_it(tmp_path: Path) -> None:
    recipe.check(write(tmp_path, "raise SystemExit\n" + GOOD))


def test_names_from_elsewhere_count(tmp_path: Path) -> None:
    recipe.check(write(tmp_path, "from other import build_model\nload_data = build_model\n"))
    recipe.check(write(tmp_path, "from other import *\n"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def load_data(params): ...\n", r"mine\.py: build_model\(params\) is missing"),
        ("def build_model(params): ...\n", r"mine\.py: load_data\(params\) is missing"),
        ("from os import *\n", r"mine\.py: build_model\(params\) is missing"),
        ("def build_model(params:\n", r"mine\.py, line 1: not Python"),
        (GOOD + "import no_such_thing\n", r"mine\.py: importing it failed: ModuleNotFoundError"),
        (GOOD + "1 / 0\n", r"mine\.py: importing it failed: ZeroDivisionError"),
    ],
)
def test_what_is_wrong_names_file_and_function(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        recipe.load(write(tmp_path, text))


def test_what_build_model_and_load_data_return_is_checked(tmp_path: Path) -> None:
    loaded = recipe.load(write(tmp_path, GOOD))
    with pytest.raises(UsageError, match=r"mine\.py: build_model\(params\) returned NoneType, not a Keras model"):
        loaded.check_model(None)
    with pytest.raises(UsageError, match=r"mine\.py: build_model\(params\) returned an uncompiled model"):
        loaded.check_model(SimpleNamespace(fit=print, compiled=False))
    loaded.check_model(SimpleNamespace(fit=print, compiled=True))
    with pytest.raises(UsageError, match=r"load_data\(params\) returned list, not \(train, validation\)"):
        loaded.check_data([1, 2])
    loaded.check_data((1, 2))
