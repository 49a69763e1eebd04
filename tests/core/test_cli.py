"""The command line: what is wrong is said in one line, before anything starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlflow_resilience.cli.last_words import command
from mlflow_resilience.cli.main import COMMANDS, call
from mlflow_resilience.errors import UsageError
from mlflow_resilience.fault_plan import KINDS, PlannedFault, parse
from mlflow_resilience.parameters import Parameters

GOOD = "def build_model(params): ...\ndef load_data(params): ...\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "--epochs", "-1"], "epochs=-1: a whole number, 1 or more, is needed"),
        (["train", "--epochs", "two"], "epochs=two: a whole number, 1 or more, is needed"),
        (["train", "--batch-size", "0"], "batch_size=0: a whole number, 1 or more, is needed"),
        (["train", "--learning-rate", "fast"], "learning_rate=fast: a number above 0 is needed"),
        (["train", "--learning-rate", "nan"], "learning_rate=nan: a number above 0 is needed"),
        (["train", "--seed", "1.5"], "seed=1.5: a whole number, 0 or more, is needed"),
        (["train", "--recover", "perhaps"], "recover=perhaps: true or false is needed"),
        (["train", "--max-attempts", "0"], "max_attempts=0: auto, or a whole number, 1 or more, is needed"),
        (["train", "--keep", "0"], "keep=0: "),
        (["train", "--resume", "a b"], "resume=a b: auto, never or the id of a run is needed"),
        (["train", "--checkpoint-every", "often"], "checkpoint_every=often: cannot save every"),
        (["train", "--fault", "nonsense@x"], "fault=nonsense@x: KIND@STEP"),
        (["train", "--fault", "nonsense@3"], "there is no fault 'nonsense'"),
        (["train", "--patience", "3"], "no such option '--patience'"),
        (["train", "missing.py"], "missing.py: it cannot be read: No such file or directory"),
        (["train", "no_such_module"], "recipe=no_such_module: no such module"),
        (["train", "broken.py"], "broken.py, line 1: not Python"),
        (["train", "half.py"], "half.py: build_model(params) is missing"),
        (["train", "."], "recipe=.: no such module"),
        (["run"], "PROGRAM"),
        (["run", "--grace-seconds", "-3", "--", "true"], "grace-seconds"),
        (["frobnicate"], "no such command 'frobnicate'"),
        (["explain", "missing.txt"], "missing.txt"),
        (["train", "--compress", "prune:1.5"], "compress=prune:1.5: 'prune:1.5' cannot be read"),
        (["train", "--warm-spare", "maybe"], "warm_spare=maybe: true or false is needed"),
        (["doctor", "--throughput", "0"], "throughput"),
        (["compare", "aaaa", "bbbb", "-o", "half.py/page.html"], "half.py/page.html cannot be written: File exists"),
        (["report", "aaaa", "-o", "."], "is a directory"),
        (["drill", "--json", "half.py/x.json"], "half.py/x.json cannot be written: File exists"),
    ],
)
def test_bad_input_is_one_clear_line_and_nothing_starts(
    arguments: list[str], told: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "broken.py").write_text("def build_model(:\n")
    (place / "half.py").write_text("def load_data(params): ...\n")
    assert call(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("mlflow-resilience: ")
    assert told in line
    assert not (place / ".mlflow_resilience").exists()


def test_an_unreadable_recipe_is_told_from_a_missing_one(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "folder.py").mkdir()
    assert call(["train", "folder.py"]) == 2
    assert "it cannot be read: Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["run", "--help"], ["--version"]])
def test_help_is_no_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(arguments) == 0
    assert capsys.readouterr().out


def test_every_command_is_there() -> None:
    for name in COMMANDS:
        assert call([name, "--help"]) == 0


def test_the_start_is_quick_and_light() -> None:
    script = """
import sys, time
from mlflow_resilience.cli.main import call
call(["train", "--epochs", "0"])
import mlflow_resilience.cli.supervision, mlflow_resilience.supervisor, mlflow_resilience.recoveries
heavy = {"tensorflow", "keras", "mlflow", "numpy", "matplotlib", "sqlalchemy"} & set(sys.modules)
assert not heavy, heavy
"""
    times = []
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
        after = os.times()  # of the processor, so that other tests beside this one do not count
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(times) < 2.0  # a third of a second on a machine that does nothing else


def test_explain_reads_a_log_and_answers_in_words_or_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "log").write_text('Traceback (most recent call last):\n  File "x.py", line 1\nNameError: name lr\n')
    assert call(["explain", "log", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"failure_class", "failure_domain", "root_cause", "ladder", "hint"}
    assert told["failure_class"] == "programming_error"
    assert call(["explain", "log"]) == 0
    assert "failure class: programming_error" in capsys.readouterr().out


def run(place: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlflow_resilience.cli", *arguments]
    return subprocess.run(
        command, cwd=place, env={**os.environ, **environ}, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


QUICK = ("run", "--delivery-seconds", "0")


def test_run_gives_the_true_exit_code_and_leaves_it_in_the_file(place: Path) -> None:
    file = place / "exit"
    done = run(place, *QUICK, "--", "bash", "-c", "exit 75", MLFLOW_RESILIENCE_EXIT_FILE=str(file))
    assert done.returncode == 75
    assert file.read_text() == "75\n"


def test_while_a_job_runs_the_exit_file_names_whom_to_ask(place: Path) -> None:
    file = place / "exit"
    done = run(
        place, *QUICK, "--", "bash", "-c", f"cat {file}; ps -o pid= -p $PPID", MLFLOW_RESILIENCE_EXIT_FILE=str(file)
    )
    state, parent = done.stdout.splitlines()[:2]
    assert state == f"running {parent.strip()}"


def test_a_wrong_start_leaves_its_exit_code_too(place: Path) -> None:
    file = place / "exit"
    run(place, "train", "--epochs", "0", MLFLOW_RESILIENCE_EXIT_FILE=str(file))
    assert file.read_text() == "2\n"


def test_run_restarts_a_command_and_says_so_in_lines(place: Path) -> None:
    script = "echo out; [ -e mark ] || { touch mark; kill -9 $$; }"
    done = run(place, *QUICK, "--", "bash", "-c", script)
    assert done.returncode == 0
    assert done.stdout.count("out\n") == 2
    assert "attempt 1: process_death (SIGKILL)" in done.stdout
    assert "attempt 2 goes on from step 0" in done.stdout
    summary = done.stdout.splitlines()[-5:]
    assert summary[0].startswith("Recovered: finished in 2 attempts")
    assert summary[-1].startswith("see: ")


def test_quiet_is_json_lines_only(place: Path) -> None:
    done = run(place, *QUICK, "--quiet", "--", "bash", "-c", "echo out; [ -e mark ] || { touch mark; kill -9 $$; }")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["kind"] for each in told if each["kind"] in ("fault", "decision", "job_ended")] == [
        "fault",
        "decision",
        "job_ended",
    ]
    assert told[-1]["outcome"] == "recovered"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (
            {"tracking_uri": "http://host:5000/", "run_id": "r", "experiment_id": "1"},
            "http://host:5000/#/experiments/1/runs/r",
        ),
        (
            {"tracking_uri": "sqlite:///mlflow.db", "run_id": "r", "experiment_id": "1"},
            "server --backend-store-uri sqlite:///mlflow.db  and then  http://127.0.0.1:5000/#/experiments/1/runs/r",
        ),
    ],
)
def test_the_last_line_opens_the_run(state: dict[str, str], expected: str) -> None:
    assert command(state).endswith(expected)


def test_a_plan_of_faults() -> None:
    assert parse("raise@60, oom@100x2,kill@140") == (
        PlannedFault("raise", 60),
        PlannedFault("oom", 100, 2),
        PlannedFault("kill", 140),
    )
    assert parse("none") == parse("") == ()
    for kind in KINDS:
        assert parse(f"{kind}@1")[0].kind == kind


@pytest.mark.parametrize("text", ["oom", "oom@", "oom@-1", "oom@0", "oom@1x0", "oom@1,", "OOM@1", "oom@1.5", "oom@1x"])
def test_what_is_no_plan_of_faults(text: str) -> None:
    with pytest.raises(UsageError, match="fault="):
        parse(text)


def test_parameters_survive_the_journal() -> None:
    parameters = Parameters.from_text({"epochs": "3", "recover": "false", "fault": "oom@1"})
    assert Parameters.from_dict(json.loads(json.dumps(parameters.to_dict()))) == parameters
    assert parameters.for_recipe() == {"epochs": 3, "batch_size": 32, "learning_rate": 0.002, "seed": 0}
    with pytest.raises(UsageError, match="unknown parameter momentum"):
        Parameters.from_text({"momentum": "1"})


def test_a_policy_by_name_brings_its_own_ceiling() -> None:
    assert Parameters.from_text({"policy": "patient"}).rules().max_attempts == 50
    assert Parameters.from_text({"policy": "patient", "max_attempts": "auto"}).rules().max_attempts == 50
    assert Parameters.from_text({"policy": "patient", "max_attempts": "7"}).rules().max_attempts == 7
    assert Parameters.from_text({"max_attempts": "auto"}).rules().max_attempts == 10
    assert not Parameters.from_text({"policy": "strict"}).rules().allow_semantic_changes
    assert Parameters.from_text({"max_lost_time": "90"}).rules().max_lost_time == 90.0
    for wrong in ({"policy": "lazy"}, {"max_lost_time": "-1"}, {"replay": "much"}, {"max_attempts": "0"}):
        with pytest.raises(UsageError, match=f"^{next(iter(wrong))}="):
            Parameters.from_text(wrong)
