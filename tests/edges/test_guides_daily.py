"""The guides for every day, as they are written: their files, their commands in order, and what they say is printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import mlflow
import pytest

from mlflow_resilience import report
from mlflow_resilience.cli.main import call
from mlflow_resilience.report.page import _VERDICTS
from mlflow_resilience.spool.folder import JobFolder, jobs
from mlflow_resilience.spool.record import JobRecord
from tests.core import example_job
from tests.edges.compare_store import Store
from tests.edges.main_job import ROOT, environ
from tests.edges.tracking_tools import Server

GUIDES = ROOT / "docs" / "guides"
BLOCK = re.compile(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUNNABLE = ("wrap-my-script.md", "resume-elsewhere.md", "write-a-recipe.md")


@dataclass(frozen=True)
class Block:
    """One fenced block: a file where it has a name, commands in ``sh``, what is printed in ``text``."""

    language: str
    name: str
    text: str


def blocks(guide: str) -> list[Block]:
    return [Block(*found.groups("")) for found in BLOCK.finditer((GUIDES / guide).read_text())]


def write_files(guide: str, folder: Path) -> None:
    for block in blocks(guide):
        if block.language == "py":
            (folder / block.name).write_text(block.text)


def shell(text: str, folder: Path, **more: str) -> tuple[int, str]:
    """The commands as a user's shell would run them, ended by the first that fails: its code, and all that was said."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    ours = bin_folder / "mlflow-resilience"
    ours.write_text(f'#!/bin/bash\nexec {shlex.quote(sys.executable)} -m mlflow_resilience.cli "$@"\n')
    ours.chmod(0o755)
    env = environ(**more)
    env["PATH"] = os.pathsep.join([str(bin_folder), env["PATH"]])
    done = subprocess.run(
        ["bash", "-e"], input=text, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=280,
    )  # fmt: skip
    return done.returncode, done.stdout


def assert_said(expected: str, output: str) -> None:
    """Each line is there, in this order; ``...`` stands for anything."""
    position = 0
    for line in expected.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        found = re.compile(f"^{pattern}$" if "..." not in line else pattern, re.MULTILINE).search(output, position)
        assert found, f"not said: {line}\n{output}"
        position = found.end()


@pytest.mark.parametrize("guide", RUNNABLE)
def test_the_files_are_python(guide: str) -> None:
    """What is not run in the fast tier can at least be compiled, and has a name to be saved under."""
    for block in blocks(guide):
        if block.language == "py":
            assert block.name.endswith(".py")
            compile(block.text, block.name, "exec")


@pytest.mark.parametrize("guide", ["wrap-my-script.md", "write-a-recipe.md"])
@pytest.mark.full
def test_every_command_does_what_the_guide_says(guide: str, tmp_path: Path) -> None:
    write_files(guide, tmp_path)
    said = ""
    for block in blocks(guide):
        if block.language == "sh":
            code, said = shell(block.text, tmp_path)
            assert code == 0, said
        elif block.language == "text":
            assert_said(block.text, said)


@pytest.mark.full
def test_a_job_goes_on_on_another_machine(tmp_path: Path) -> None:
    """Two folders that share a tracking server and nothing else; the first is stopped in the middle."""
    server = Server(tmp_path / "server")
    (tmp_path / "server").mkdir(exist_ok=True)
    server.start()
    try:
        first, second = (
            block.text.replace("http://mlflow.example:5000", server.uri)
            for block in blocks("resume-elsewhere.md")
            if block.language == "sh"
        )
        assert first == second, "the same command"
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        there.mkdir()
        code, said = shell(f"{first.rstrip()} --fault term@100\n", here)
        assert code == 75, said
        code, said = shell(f"{second.rstrip()} --fault term@100\n", there)
        assert code == 0, said
        (expected,) = (block.text for block in blocks("resume-elsewhere.md") if block.language == "text")
        assert_said(expected, said)
        record = JobRecord.read(jobs(there / ".mlflow_resilience")[0].journal)
        assert record.resumed is not None and record.resumed["from_model"], "from MLflow"
        assert len(record.curve["loss"]) == 4, "the whole curve"
    finally:
        server.kill()


def local_job(home: Path, *more: dict[str, object]) -> JobFolder:
    """The example's job as if it had been done here."""
    folder = JobFolder.create(home)
    journal = folder.open_journal()
    for entry in [*example_job.entries(), *more]:
        journal.append(str(entry["kind"]), **{key: value for key, value in entry.items() if key != "kind"})
    journal.close()
    return folder


def test_report_and_compare_are_called_as_the_guide_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the beginning of an id in the place of RUN, and `digits` as the experiment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    monkeypatch.setenv("MLFLOW_RESILIENCE_HOME", str(tmp_path / "home"))
    store = Store(tmp_path / "store", "digits")
    mlflow.set_tracking_uri(None)  # what a test before this one has left in the process
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)
    runs = [store.job("one"), store.job("two", "recovered", faults=1)]
    folder = local_job(tmp_path / "home")
    commands = {block.name: block.text for block in blocks("read-the-report.md") if block.language == "sh"}
    (line,) = commands["report"].splitlines()
    assert call(shlex.split(line.replace("RUN", folder.job_id[:-3]))[1:]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6, "five lines, and where the page is"
    pair, whole = commands["compare"].splitlines()
    assert call(shlex.split(pair.replace("RUN", runs[0][:10], 1).replace("RUN", runs[1][:10], 1))[1:]) == 0
    assert "same result bit for bit" in capsys.readouterr().out
    assert call(shlex.split(whole)[1:]) == 0
    assert "two" in capsys.readouterr().out
    store.close()
    mlflow.set_tracking_uri(None)


def test_the_guide_to_the_report_names_what_is_on_the_page() -> None:
    """Its words for the verdict are the page's, and so are the sections."""
    guide = (GUIDES / "read-the-report.md").read_text()
    page = report.render(example_job.record())
    for heading in re.findall(r"<h2[^>]*>([^<]*)</h2>", page):
        assert heading in guide, f"the guide says nothing of {heading}"
    told = set(re.findall(r"^\| ([A-Z][\w:, ]+?) \|", guide, re.MULTILINE))
    assert told == set(_VERDICTS.values()) - {"Still running"}


def test_the_readme_links_every_guide() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [each.name for each in sorted(GUIDES.glob("*.md")) if f"docs/guides/{each.name}" not in readme] == []
