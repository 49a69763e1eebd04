"""The guides to clusters: their scripts are run, with stand-ins for what is not on this machine.

Those for every day are in ``test_guides_daily.py``.
"""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlflow_resilience.cli.run import command as run_command
from tests.edges.main_job import ROOT, environ

GUIDES = ROOT / "docs" / "guides"
PATIENCE = 60.0

#: In the place of `mlflow-resilience`: waits for a signal, saves, and ends as ours does; the next time it finishes.
STAND_IN = """#!/bin/bash
echo "$@" > arguments
if [ -e saved ]; then exit ${SECOND_CODE:-0}; fi
trap 'sleep 0.2; echo "$1 USR1" > saved; exit 75' USR1
trap 'sleep 0.2; echo "$1 TERM" > saved; exit 75' TERM
touch started
while :; do sleep 0.02; done
"""

#: The same as a training script for the real one.
TRAIN = """
import pathlib, signal, sys, time

def save(*_):
    pathlib.Path("saved").touch()
    sys.exit(75)

if pathlib.Path("saved").exists():
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path("started").touch()
time.sleep(600)
"""


def code(guide: str, language: str) -> str:
    """The guide's one block in this language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", (GUIDES / guide).read_text(), re.MULTILINE | re.DOTALL)
    return str(block)


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def our_options(words: list[str]) -> dict[str, float]:
    """The options before ``--``, every one of which `mlflow-resilience run` must know."""
    assert words[0] == "run"
    context = run_command.make_context("run", words[1:], resilient_parsing=False)
    return {name: float(context.params[name]) for name in ("grace_seconds", "delivery_seconds")}


@contextmanager
def started(folder: Path, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The command, once what it runs waits for a signal."""
    path = os.pathsep.join([str(folder / "bin"), environ()["PATH"]])
    more = {"PATH": path, "SLURM_JOB_ID": "4711", "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db"}
    process = subprocess.Popen(command, cwd=folder, env=environ(**more), text=True, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def awaits_signal(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (folder / "started").exists():
        assert time.monotonic() < deadline, "it did not start"
        time.sleep(0.01)


def stopped(folder: Path, command: list[str], by: int) -> int:
    """Start, send one signal, and wait for the end: the exit code."""
    with started(folder, command) as process:
        awaits_signal(folder)
        process.send_signal(by)
        return process.wait(PATIENCE)


def finished(folder: Path, command: list[str]) -> int:
    with started(folder, command) as process:
        return process.wait(PATIENCE)


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.full)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a script to train and `mlflow-resilience` on the path."""
    ours = f'#!/bin/bash\nexec {shlex.quote(sys.executable)} -m mlflow_resilience.cli "$@"\n'
    program(tmp_path, "mlflow-resilience", STAND_IN if request.param == "stand-in" else ours)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


@pytest.mark.parametrize("by", [signal.SIGUSR1, signal.SIGTERM])
def test_the_slurm_script_saves_requeues_itself_and_goes_on(place: Path, by: int) -> None:
    (place / "train.sh").write_text(code("slurm.md", "bash"))
    program(place, "scontrol", '#!/bin/bash\necho "$@" >> called\n')
    assert stopped(place, ["bash", "train.sh"], by) == 75
    assert (place / "called").read_text() == "requeue 4711\n"
    assert finished(place, ["bash", "train.sh"]) == 0
    assert (place / "called").read_text() == "requeue 4711\n", "what has finished is not put back"


def test_the_slurm_script_does_not_requeue_what_failed(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(code("slurm.md", "bash"))
    program(tmp_path, "mlflow-resilience", "#!/bin/bash\nexit 1\n")
    program(tmp_path, "scontrol", "#!/bin/bash\ntouch called\n")
    assert finished(tmp_path, ["bash", "train.sh"]) == 1
    assert not (tmp_path / "called").exists()


def test_slurm_leaves_time_enough() -> None:
    script = code("slurm.md", "bash")
    line = next(line for line in script.splitlines() if line.startswith("mlflow-resilience "))
    seconds = our_options(shlex.split(line.rstrip(" &"))[1:])
    (ahead,) = re.findall(r"^#SBATCH --signal=B:USR1@(\d+)$", script, re.MULTILINE)
    assert sum(seconds.values()) < int(ahead)
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def manifest() -> tuple[dict[str, Any], dict[str, Any]]:
    spec = yaml.safe_load(code("kubernetes.md", "yaml"))["spec"]
    return spec, spec["template"]["spec"]


def test_the_kubernetes_policy_knows_our_exit_codes() -> None:
    spec, pod = manifest()
    (container,) = pod["containers"]
    rules = {rule["action"]: rule["onExitCodes"] for rule in spec["podFailurePolicy"]["rules"] if "onExitCodes" in rule}
    assert (rules["Ignore"]["values"], rules["FailJob"]["values"]) == ([75], [1, 2])
    assert all((rule["containerName"], rule["operator"]) == (container["name"], "In") for rule in rules.values())
    assert pod["restartPolicy"] == "Never", "the policy needs it"
    assert sum(our_options(container["command"][1:]).values()) < pod["terminationGracePeriodSeconds"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert [mounts[volume["name"]] for volume in pod["volumes"]] == [container["workingDir"]], "the job's folder stays"


def test_the_kubernetes_command_saves_on_sigterm_and_goes_on(place: Path) -> None:
    spec, pod = manifest()
    command = pod["containers"][0]["command"]
    assert stopped(place, command, signal.SIGTERM) in spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"]
    assert finished(place, command) == 0


def unit(place: Path) -> str:
    """The unit, as if `/srv/train` were here."""
    (place / "venv").mkdir(exist_ok=True)
    if not (place / "venv" / "bin").exists():
        program(place, "python", f'#!/bin/bash\nexec {shlex.quote(sys.executable)} "$@"\n')
        (place / "venv" / "bin").symlink_to(place / "bin")
    return code("systemd.md", "ini").replace("/srv/train", str(place))


def service(text: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return {**parser["Unit"], **parser["Service"]}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program(tmp_path, "mlflow-resilience", "#!/bin/bash\n")
    (tmp_path / "train.service").write_text(unit(tmp_path))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "train.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    complaints = [line for line in done.stderr.splitlines() if "train.service" in line]
    assert complaints == []


def test_the_systemd_unit_saves_goes_on_and_leaves_a_mark(place: Path) -> None:
    told = service(unit(place))
    command = shlex.split(told["ExecStart"])
    assert sum(our_options(command[1:]).values()) < float(told["TimeoutStopSec"])
    assert (told["RestartForceExitStatus"], told["RestartPreventExitStatus"]) == ("75", "1 2")
    mark = Path(told["ConditionPathExists"].removeprefix("!"))
    ends = {75: stopped(place, command, signal.SIGTERM), 0: finished(place, command)}
    for expected, status in ends.items():
        assert status == expected
        post = shlex.split(told["ExecStopPost"])
        subprocess.run(post, env={**os.environ, "EXIT_STATUS": str(status)}, check=True)
        assert mark.exists() is (status == 0)
