"""The results on disk, the scorecard, and what is made of it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import safetensors.numpy
import yaml

from mlflow_resilience.cli.drill import command
from mlflow_resilience.cli.drill_view import Progress, show
from mlflow_resilience.cli.main import call
from mlflow_resilience.drill import figure, weights
from mlflow_resilience.drill.going_back import Loss
from mlflow_resilience.drill.junit import junit
from mlflow_resilience.drill.processes import end_all, eventually, left_running
from mlflow_resilience.drill.results import Results
from mlflow_resilience.drill.running import Command, Interrupted, run
from mlflow_resilience.drill.settings import Settings, folder_of
from mlflow_resilience.drill.striker import Order, Striker, struck
from mlflow_resilience.drill.verdict import WORDS
from tests.drill.examples import RECOVERED, card, result
from tests.edges.main_job import ROOT

GOOD = result("kill@resume", "IDENTICAL", codes=(0,))
SILENT = result("nan@mid_epoch", "SILENT_DIVERGENCE", "the final model is <another> one", kept="/there")
PLAN = result("nan@3,term@5", "STOPPED_RIGHTLY")


def test_what_was_written_is_read_again_without_a_line_that_was_cut_off(tmp_path: Path) -> None:
    results = Results(tmp_path / "drill" / "results.jsonl")
    facts = replace(RECOVERED, losses=(Loss(9, 5, [5]),), curves={"loss": [(1, math.inf)]})
    results.set_undisturbed(facts)
    for each in (GOOD, PLAN):
        results.add(each)
    with results.path.open("a") as file:
        file.write('\n{"result": {"cell"')
    again = Results.read(results.path)
    assert again.undisturbed == facts
    assert list(again.cells.values()) == [GOOD, PLAN]
    again.add(SILENT)
    assert list(Results.read(results.path).cells) == [GOOD.cell.name, PLAN.cell.name, SILENT.cell.name]


def test_a_result_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert Results.read(tmp_path / "none.jsonl").undisturbed is None


def test_another_recipe_or_setting_has_another_folder(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text("def build_model(params): ...\ndef load_data(params): ...\n")
    settings = Settings(recipe=str(recipe))
    folder = folder_of(tmp_path, settings)
    assert folder == folder_of(tmp_path, settings)
    assert folder.name.startswith("mine-")
    assert folder != folder_of(tmp_path, replace(settings, epochs=4))
    recipe.write_text(recipe.read_text() + "\n")
    assert folder != folder_of(tmp_path, settings)


def test_the_scorecard_counts_tells_the_worst_first_and_has_tags_to_ask_for() -> None:
    made = card(GOOD, PLAN, SILENT)
    assert not made.passed and card(GOOD, PLAN).passed
    assert made.headline == "FAILED: 3 cells: 1 IDENTICAL, 1 STOPPED_RIGHTLY, 1 SILENT_DIVERGENCE"
    assert [each.verdict.word for each in made.worth_telling()] == ["SILENT_DIVERGENCE", "STOPPED_RIGHTLY"]
    tags = made.tags()
    assert tags["resilience.drill.verdict"] == "failed"
    assert tags["resilience.drill.silent_divergence"] == "1"
    assert tags["resilience.drill.resume_key"] == "0123abcd"
    assert tags["resilience.drill.version.keras"] == "3.0"
    assert {f"resilience.drill.{word.lower()}" for word in WORDS} < set(tags)
    document = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert [cell["verdict"] for cell in document["cells"]] == ["IDENTICAL", "STOPPED_RIGHTLY", "SILENT_DIVERGENCE"]


def test_json_has_no_numbers_that_are_none() -> None:
    odd = replace(SILENT, verdict=replace(SILENT.verdict, metrics={"loss": math.nan}, weights=math.inf))
    (cell,) = json.loads(json.dumps(card(odd).to_dict(), allow_nan=False))["cells"]
    assert (cell["metrics"], cell["weights"]) == ({"loss": None}, None)


def test_junit_has_a_case_for_each_cell_and_tells_failures_from_errors() -> None:
    text = junit(card(GOOD, SILENT, result("hang@resume", "HARD_FAIL", "no end\x1b[31m")))
    suite = ElementTree.fromstring(text).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    first, second, third = suite.findall("testcase")
    assert first.find("failure") is None and first.find("error") is None
    failure, error = second.find("failure"), third.find("error")
    assert failure is not None and failure.get("message") == "the final model is <another> one"
    assert error is not None and error.get("type") == "HARD_FAIL"


def test_the_figure_has_a_word_for_each_cell_and_a_sentence_instead() -> None:
    made = card(GOOD, PLAN, SILENT)
    drawn = figure.svg(made)
    for word in ("identical", "SILENT", "mid epoch", "nan@3,term@5", "stopped (1)"):
        assert word in drawn
    assert 'aria-label="Drill of my_recipe.py. FAILED: 3 cells' in drawn
    assert figure.png(made).startswith(b"\x89PNG")
    assert "stopped" in figure.svg(card(PLAN))


def test_the_terminal_has_the_matrix_and_a_sentence_for_what_is_not_identical(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(card(GOOD, PLAN, SILENT), "http://there")
    printed = capsys.readouterr().out
    header, first, *_ = printed.splitlines()
    assert header.split() == ["mid", "epoch", "resume"] and first.split() == ["kill", "identical"]
    assert "nan@mid_epoch: SILENT_DIVERGENCE: the final model is <another> one (see /there)" in printed
    assert printed.splitlines()[-2:] == [card(GOOD, PLAN, SILENT).headline, "see: http://there"]


def test_progress_counts_what_was_done_before(capsys: pytest.CaptureFixture[str]) -> None:
    view = Progress()
    view.begins(3, 2)
    view.started("kill@resume")
    view.ended(GOOD)
    printed = capsys.readouterr().out
    assert "3 cells, 2 of them done already" in printed
    assert "[3/3] kill@resume: IDENTICAL (1.5 s)" in printed


def test_weights_are_compared_over_the_model_alone(tmp_path: Path) -> None:
    before = {"model/0": np.array([3.0, 4.0], "f4"), "optimizer/0": np.array([9.0], "f4")}
    after = {"model/0": np.array([3.0, 4.5], "f4"), "optimizer/0": np.array([1.0], "f4")}
    paths = [tmp_path / name for name in ("before", "after")]
    for path, tensors in zip(paths, (before, after), strict=True):
        safetensors.numpy.save_file(tensors, path)
    assert weights.distance(*paths) == pytest.approx(0.1)
    assert weights.distance(paths[0], None) is None
    paths[1].write_bytes(b"torn")
    assert weights.distance(*paths) is None


def _command(folder: Path, program: str) -> Command:
    return Command(
        options=[], folder=folder, tracking_uri="sqlite:///x", program=[sys.executable, "-c", program], seconds=20
    )


def test_a_command_is_started_again_when_preempted_or_killed_and_not_for_ever(tmp_path: Path) -> None:
    counts = "import os, pathlib; p = pathlib.Path(os.environ['MLFLOW_RESILIENCE_DRILL_CELL'], 'n'); "
    counts += "n = len(p.read_text()) if p.exists() else 0; p.write_text('x' * (n + 1)); "
    kills = "os.kill(os.getpid(), 9) if n == 1 else None; "
    ran = run(_command(tmp_path / "a", counts + kills + "raise SystemExit([75, 0, 0][n])"), threading.Event())
    assert ran.codes == (75, -9, 0)
    assert run(_command(tmp_path / "b", counts + "raise SystemExit(75)"), threading.Event()).codes == (75,) * 8
    assert run(_command(tmp_path / "c", counts + "raise SystemExit(1)"), threading.Event()).codes == (1,)


_WAITS = """
import subprocess, sys, threading
if sys.argv[1:2] != ["again"]:
    subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"], start_new_session=True)
print("begun", flush=True)
threading.Event().wait()
"""


def test_an_interrupted_command_leaves_no_process_behind(tmp_path: Path) -> None:
    command, asked, ended = _command(tmp_path / "cell", _WAITS), threading.Event(), []

    def one() -> None:
        try:
            run(command, asked)
        except Interrupted:
            ended.append(True)

    thread = threading.Thread(target=one)
    thread.start()
    assert eventually(lambda: command.output.exists() and "begun" in command.output.read_text(), 20)
    assert len(left_running(command.sign)) == 2
    asked.set()
    thread.join(20)
    assert ended and not left_running(command.sign)


def test_a_command_that_comes_to_no_end_is_ended(tmp_path: Path) -> None:
    command = replace(_command(tmp_path / "cell", _WAITS), seconds=1.0)
    ran = run(command, threading.Event())
    assert ran.late and ran.codes == ()
    assert not left_running(command.sign)


def test_processes_are_ended_by_their_own_sign_alone(tmp_path: Path) -> None:
    waits = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    both = [subprocess.Popen(waits, env={"SIGN": f"{tmp_path}{end}"}) for end in ("", "-2")]
    try:
        assert end_all(f"SIGN={tmp_path}\0")
        assert both[0].wait(10) == -9
        assert both[1].poll() is None
    finally:
        both[1].kill()
        both[1].wait()


_STRIKES = """
import sys
from pathlib import Path
from mlflow_resilience.drill.striker import Order, Striker
cell = Path(sys.argv[1])
striker = Striker(Order.read(cell), cell, cell)
striker.epoch = int(sys.argv[2])
for path, mode in [("checkpoints/step-0000000005/state.safetensors", "rb"),
                   ("checkpoints/.writing-step-0000000009-1/state.safetensors", "wb"),
                   ("checkpoints/.writing-step-0000000009-1/state.json", "wb"), ("models/ab/model.json", "w")]:
    (cell / path).parent.mkdir(parents=True, exist_ok=True)
    if "r" in mode:
        (cell / path).touch()
    try:
        open(cell / path, mode).close()
    except (RuntimeError, OSError):
        print(path)
"""


@pytest.mark.parametrize(
    ("place", "where"),
    [("checkpoint_write", "state.json"), ("publishing", "model.json"), ("recovery", "state.safetensors")],
)
def test_a_striker_strikes_once_when_the_file_of_its_place_is_opened(tmp_path: Path, place: str, where: str) -> None:
    """In the second epoch, and in one process of a cell alone."""
    Order("r.py", "transient_io", place).write(tmp_path)
    begin = [sys.executable, "-c", _STRIKES, str(tmp_path)]
    early = subprocess.run([*begin, "0"], capture_output=True, text=True, check=True).stdout.split()
    if place != "recovery":
        assert early == [] and struck(tmp_path) == []
        early = subprocess.run([*begin, "1"], capture_output=True, text=True, check=True).stdout.split()
    assert [Path(path).name for path in early] == [where]
    assert struck(tmp_path) == [f"transient_io@{place}"]
    assert subprocess.run([*begin, "1"], capture_output=True, text=True, check=True).stdout == ""


def test_a_striker_for_the_resume_waits_for_the_second_process(tmp_path: Path) -> None:
    Order("r.py", "transient_io", "resume").write(tmp_path)
    begin = [sys.executable, "-c", _STRIKES, str(tmp_path), "1"]
    told = [subprocess.run(begin, capture_output=True, text=True, check=True).stdout.split() for _ in range(3)]
    assert [len(each) for each in told] == [0, 1, 0]


def test_what_code_raises_is_raised_as_training_begins_again(tmp_path: Path) -> None:
    """In the same process for a recovery, and in the next one for a resume; no file's opening raises it."""
    for place in ("recovery", "resume"):
        cell = tmp_path / place
        cell.mkdir()
        Order("r.py", "raise", place).write(cell)
        first = Striker(Order.read(cell), cell, cell)
        (cell / "state.safetensors").touch()
        (cell / "state.safetensors").read_bytes()
        first.training_begins()
        if place == "recovery":
            with pytest.raises(RuntimeError):
                first.training_begins()
        else:
            first.training_begins()
            with pytest.raises(RuntimeError):
                Striker(Order.read(cell), cell, cell).training_begins()
        assert struck(cell) == [f"raise@{place}"]


def test_a_striker_without_an_order_does_nothing(tmp_path: Path) -> None:
    Order("r.py").write(tmp_path)
    striker = Striker(Order.read(tmp_path), tmp_path, tmp_path)
    striker.epoch = 1
    striker.validated()
    striker.epoch_ended()
    assert struck(tmp_path) == []


def test_the_entry_point_has_the_defaults_of_the_command() -> None:
    entry = yaml.safe_load((ROOT / "MLproject").read_text())["entry_points"]["drill"]
    options = {option.name: option for option in command.params}
    for name, parameter in entry["parameters"].items():
        option = options[{"random": "plans", "quick": "sample"}.get(name, name)]
        assert str(option.default).lower() == str(parameter["default"]).lower(), name
        assert f"{{{name}}}" in entry["command"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--only", "nan@validation"], "only=nan@validation: it is in a batch"),
        (["--epochs", "1"], "epochs=1: 2 or more"),
        (["--batch-size", "0"], "batch_size=0: a whole number"),
        (["--checkpoint-every", "often"], "cannot save every 'often'"),
        (["--jobs", "0"], "--jobs"),
        (["missing.py"], "missing.py: it cannot be read"),
        (["--no-log", "--model", "m-1"], "--model and --no-log do not go together"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(["drill", *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error and len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
