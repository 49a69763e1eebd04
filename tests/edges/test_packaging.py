"""What is installed where, and what the scripts promise; the installing itself runs with --all."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlflow_resilience.parameters import Parameters

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONDA: dict[str, Any] = yaml.safe_load((ROOT / "conda.yaml").read_text())
MLPROJECT: dict[str, Any] = yaml.safe_load((ROOT / "MLproject").read_text())


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return normal(match[0])


def pip_section() -> list[str]:
    (section,) = (each["pip"] for each in CONDA["dependencies"] if isinstance(each, dict))
    return list(section)


def test_every_constraint_is_one_exact_version_and_names_no_place() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line), line


def test_what_is_installed_here_agrees_with_the_constraints() -> None:
    for name, version in pins().items():
        try:
            assert importlib.metadata.version(name) == version, name
        except importlib.metadata.PackageNotFoundError:
            continue  # a tool that this environment was made without


def test_every_dependency_is_pinned() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    for requirement in [*PROJECT["project"]["dependencies"], *extras["test"], *extras["uv"]]:
        assert named(requirement) in pins(), requirement


def test_conda_installs_the_same_versions_and_this_project() -> None:
    section = pip_section()
    assert section[-1] == "-e ."
    wanted = {named(each) for each in PROJECT["project"]["dependencies"]}
    installed = {normal(name): version for name, _, version in (each.partition("==") for each in section) if version}
    assert set(installed) == wanted
    assert installed.items() <= pins().items()


def test_mlproject_has_the_parameters_of_the_command_line_with_its_defaults() -> None:
    main = MLPROJECT["entry_points"]["main"]
    told = {name: str(each["default"]) for name, each in main["parameters"].items()}
    assert set(told) == set(vars(Parameters()))
    assert Parameters.from_text(told) == Parameters()
    for name in told:
        assert f"{{{name}}}" in main["command"]


def test_every_entry_point_has_a_command_that_exists() -> None:
    for name, entry in MLPROJECT["entry_points"].items():
        script = entry["command"].split()[1]
        assert (ROOT / script).is_file(), name


def test_installed_entry_points_lead_somewhere() -> None:
    groups = {"console_scripts": PROJECT["project"]["scripts"], **PROJECT["project"].get("entry-points", {})}
    for entries in groups.values():
        for target in entries.values():
            module, _, attribute = target.partition(":")
            assert hasattr(importlib.import_module(module), attribute), target


def test_scripts_can_be_started_and_the_licence_is_whole() -> None:
    for script in ("scripts/run", "scripts/test", ".ci/run"):
        assert os.access(ROOT / script, os.X_OK), script
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The module scripts/environment.py over a copy of the project whose installing is only counted."""
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    loaded = runpy.run_path(str(ROOT / "scripts" / "environment.py"))
    space = loaded["prepare"].__globals__
    installed: list[str] = []
    monkeypatch.setitem(space, "ROOT", str(tmp_path))
    monkeypatch.setitem(space, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setitem(space, "_make", lambda: (tmp_path / ".venv").mkdir(exist_ok=True))
    monkeypatch.setitem(space, "_install", installed.append)
    return {**space, "installed": installed, "space": space}


def test_a_second_start_does_not_install_again_until_the_project_changes(
    environment: dict[str, Any], tmp_path: Path
) -> None:
    environment["prepare"]("uv")
    environment["prepare"]("uv")
    assert environment["installed"] == ["uv"]
    environment["prepare"]("test")
    environment["prepare"]("uv")
    assert environment["installed"] == ["uv", "test"]
    with (tmp_path / "constraints.txt").open("a") as file:
        file.write("more==1\n")
    environment["prepare"]("uv")
    assert environment["installed"] == ["uv", "test", "uv"]


def test_another_system_and_an_old_python_get_one_clear_line(
    environment: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit, match="runs on Linux only"):
        environment["require_linux"]()
    monkeypatch.setitem(environment["space"], "OLDEST", (9, 0))
    monkeypatch.setitem(environment["space"], "NEWEST", (9, 0))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11, 3\.12 or 3\.13"):
        environment["_find_python"]()


RUN = """
import sys
sys.path.insert(0, {scripts!r})
import environment
environment.prepare = lambda extra: None
environment.PYTHON = {fake!r}
import runpy
runpy.run_path({run!r}, run_name="__main__")
"""


def scripts_run(tmp_path: Path, mlflow: str) -> subprocess.Popen[str]:
    """scripts/run over a stand-in for `python -m mlflow run`."""
    fake = tmp_path / "fake-python"
    fake.write_text(f"#!/bin/bash\n{mlflow}\n")
    fake.chmod(0o755)
    scripts = ROOT / "scripts"
    code = RUN.format(scripts=str(scripts), fake=str(fake), run=str(scripts / "run"))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("mlflow", "code"),
    [
        ("exit 0", 0),
        ("exit 1", 1),
        ('echo 75 > "$MLFLOW_RESILIENCE_EXIT_FILE"; exit 1', 75),
        ('echo 0 > "$MLFLOW_RESILIENCE_EXIT_FILE"; exit 0', 0),
        ("kill -9 $$", 137),
        # mlflow run is killed; the job, which notices, saves and leaves its code
        ('(f="$MLFLOW_RESILIENCE_EXIT_FILE"; echo "running $BASHPID" > "$f"; sleep 0.5; echo 75 > "$f") & sleep 0.2; '
         "kill -9 $$", 75),
    ],
)  # fmt: skip
def test_scripts_run_ends_with_the_jobs_own_code(tmp_path: Path, mlflow: str, code: int) -> None:
    assert scripts_run(tmp_path, mlflow).wait(timeout=30) == code


def test_a_request_to_stop_reaches_the_job_and_mlflow_ends_by_itself(tmp_path: Path) -> None:
    mark = tmp_path / "ready"
    mlflow = (
        f'f="$MLFLOW_RESILIENCE_EXIT_FILE"; (trap \'echo 75 > "$f"; exit 75\' TERM; echo "running $BASHPID" > "$f"; '
        f"touch {mark}; while :; do sleep 0.05; done) & wait $!; exit 1"
    )
    process = scripts_run(tmp_path, mlflow)
    while not mark.exists():
        assert process.poll() is None
    process.terminate()
    assert process.wait(timeout=30) == 75


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_what_conda_names_installs_and_runs_from_elsewhere(tmp_path: Path) -> None:
    uv = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert uv is not None
    project, venv = tmp_path / "project", tmp_path / "venv"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "__pycache__", ".mlflow_resilience", "mlruns", "mlflow.db*", ".*_cache"
    )
    shutil.copytree(ROOT, project, ignore=ignored)
    (project / "requirements.txt").write_text("\n".join(pip_section()))
    python = next(each for each in CONDA["dependencies"] if str(each).startswith("python=")).partition("=")[2]
    subprocess.run([uv, "venv", "--python", python, venv], check=True)
    environ = {**os.environ, "VIRTUAL_ENV": str(venv)}
    subprocess.run([uv, "pip", "install", "-q", "-r", "requirements.txt"], check=True, cwd=project, env=environ)
    script = [venv / "bin" / "mlflow-resilience", "--version"]
    assert subprocess.run(script, check=True, cwd=tmp_path, capture_output=True).stdout
    subprocess.run([uv, "pip", "check"], check=True, env=environ)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_main_job_runs_in_an_environment_made_by_uv(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "MLFLOW_ENV_ROOT": str(tmp_path / "environments"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        "MLFLOW_RESILIENCE_HOME": str(tmp_path / "home"),
        "MLFLOW_RESILIENCE_EXIT_FILE": str(tmp_path / "exit"),
    }
    command = [sys.executable, "-m", "mlflow", "run", str(ROOT), "--env-manager", "uv", "-P", "epochs=1"]
    subprocess.run(command, check=True, env=environ, cwd=tmp_path)
    assert (tmp_path / "exit").read_text() == "0\n"
