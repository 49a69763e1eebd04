"""What the documents say is tried: snippets run, commands exist, links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mlflow_resilience.cli.main import call

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (path.name, code) for path in DOCUMENTS for found, code in BLOCK.findall(path.read_text()) if found == language
    ]


def commands() -> list[str]:
    return [line for _, code in blocks("sh") for line in code.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(("document", "code"), blocks("python"))
def test_a_snippet_runs(document: str, code: str, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", commands())
def test_a_command_is_one_that_there_is(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, *rest = shlex.split(command)
    if program.startswith("scripts/"):
        assert os.access(ROOT / program, os.X_OK)
        return
    assert program == "mlflow-resilience", f"say here how {program} is to be checked"
    assert call([rest[0], "--help"]) == 0
    help_text = capsys.readouterr().out
    own = rest[1 : rest.index("--")] if "--" in rest else rest[1:]
    for option in [word for word in own if word.startswith("--")]:
        assert option in help_text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target
