"""What people paste is read as they have it: messages, tracebacks, notebooks, logs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.cli.main import call
from mlflow_resilience.errors import NothingToExplain
from mlflow_resilience.explain import explain

LOGS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "logs.json").read_text())

#: As people paste them: notebooks, launchers' prefixes, tracebacks of other processes, what stands around them.
PASTED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "pasted.json").read_text())

STARTUP = """\
2024-05-01 12:00:00.1: E external/xla/cuda_dnn.cc:9261] Unable to register cuDNN factory: already registered
2024-05-01 12:00:00.2: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT
2024-05-01 12:00:00.3: W tensorflow/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: \
libcudart.so.11.0: cannot open shared object file: No such file or directory
2024-05-01 12:00:00.4: E tensorflow/cuda_driver.cc:271] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no device
WARNING:tensorflow:multiprocessing can interact badly with TensorFlow, causing nondeterministic deadlocks.
"""
OUT_OF_MEMORY = """\
Traceback (most recent call last):
  File "/app/train.py", line 30, in <module>
    model.fit(ds)
tensorflow.python.framework.errors_impl.ResourceExhaustedError: Out of memory while trying to allocate 6.52GiB. [Op:f]
"""
TRACKING = """\
2024-05-01 12:00:00 WARNING mlflow.utils.autologging_utils: Encountered unexpected error during autologging
Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/mlflow/utils/rest_utils.py", line 3, in http
    raise MlflowException("API request failed")
mlflow.exceptions.MlflowException: API request to endpoint failed
"""
AT_EXIT = """\
Error in atexit._run_exitfuncs:
Traceback (most recent call last):
  File "/usr/lib/python3.11/concurrent/futures/thread.py", line 31, in _python_exit
    t.join()
RuntimeError: cannot join current thread
"""


def training(epochs: int = 2, steps: int = 20) -> str:
    lines = []
    for epoch in range(epochs):
        lines.append(f"Epoch {epoch + 1}/{epochs}")
        lines += [f" {step}/{steps} [=>....] - ETA: 1s - loss: 2.3 - accuracy: 0.1" for step in range(steps)]
    return "\n".join(lines) + "\n"


def prefixed(prefix: str, text: str) -> str:
    return "\n".join(prefix + line for line in text.split("\n"))


WHOLE = STARTUP + training() + OUT_OF_MEMORY + "and more\nafter it\n"


@pytest.mark.parametrize("name", LOGS)
def test_texts_of_many_kinds(name: str) -> None:
    """Each text is given the class of what broke first in it."""
    assert explain(LOGS[name]["text"]).failure_class == LOGS[name]["failure_class"]


@pytest.mark.parametrize("name", PASTED)
def test_texts_as_they_are_pasted(name: str) -> None:
    """Whatever launcher or notebook they come out of."""
    assert explain(PASTED[name]["text"]).failure_class == PASTED[name]["failure_class"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(prefixed("2024-05-01T12:00:00.123456789Z stderr F ", WHOLE), id="kubernetes"),
        pytest.param(prefixed("(train_fn pid=4711, ip=10.0.0.3) ", WHOLE), id="ray"),
        pytest.param(prefixed("[1,3]<stderr>:", WHOLE), id="mpirun"),
        pytest.param(prefixed("3: ", WHOLE), id="srun"),
        pytest.param(prefixed("trainer-1  | ", WHOLE), id="compose"),
        pytest.param(prefixed("[rank2]: ", WHOLE), id="torchrun"),
        pytest.param(prefixed("May  1 12:00:00 host python[4711]: ", WHOLE), id="syslog"),
        pytest.param(prefixed("> ", WHOLE), id="quoted"),
        pytest.param(WHOLE.replace("\n", "\r\n"), id="crlf"),
        pytest.param("\x1b[31m" + WHOLE + "\x1b[0m", id="coloured"),
        pytest.param(json.dumps({"severity": "ERROR", "message": OUT_OF_MEMORY}), id="json"),
        pytest.param("What is this?\n\n```\n" + OUT_OF_MEMORY + "```\nThanks!", id="fenced"),
        pytest.param(OUT_OF_MEMORY + AT_EXIT, id="at exit"),
        pytest.param(AT_EXIT + OUT_OF_MEMORY, id="at exit first"),
        pytest.param(training() + TRACKING + training() + OUT_OF_MEMORY, id="an earlier fault that training survived"),
    ],
)
def test_the_same_fault_in_many_wrappings(text: str) -> None:
    """Prefixes, noise at the start and at exit, and faults that were survived do not change the answer."""
    explanation = explain(text)
    assert explanation.failure_class == "device_oom"
    assert explanation.root_cause.startswith("ResourceExhaustedError: Out of memory while trying to allocate")


def test_a_very_long_log_is_read_in_time() -> None:
    """A hundred thousand lines before and after cost well under a second."""
    many = "\n".join(f"2024-05-01 12:00:00 INFO worker output line {i}, all is fine" for i in range(50_000))
    begun = time.perf_counter()
    assert explain(f"{many}\n{WHOLE}{many}").failure_class == "device_oom"
    assert explain(f"{many}\n{many}\nSegmentation fault (core dumped)\n").failure_class == "process_death"
    assert time.perf_counter() - begun < 20.0  # both, on a machine that does other things too


def test_the_answer_as_json() -> None:
    """The keys of the contract, with a ladder in words that ends where the ladder ends."""
    answer = explain(OUT_OF_MEMORY).to_dict()
    assert list(answer) == ["failure_class", "failure_domain", "root_cause", "ladder", "hint"]
    assert answer["failure_domain"] == "workload"
    assert answer["ladder"][0] == "each batch in 2 micro-batches, the same step again (up to 8 times)"
    assert answer["ladder"][-1] == "stop"
    assert explain("KeyboardInterrupt").ladder == ["save and leave, to be resumed"]
    assert json.loads(json.dumps(answer)) == answer


def test_no_secret_is_repeated() -> None:
    """The root cause is shown without the secrets in it."""
    assert "hunter2" not in explain("OperationalError: mysql://bob:hunter2secret@db/x: gone away").root_cause


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(" \n\t\n", id="blank"),
        pytest.param("hello world", id="prose"),
        pytest.param("def add(a, b):\n    return a + b\n", id="code"),
        pytest.param(STARTUP + training() + "Saved checkpoint to /models/digits\nDone.\n", id="a training"),
        pytest.param(prefixed("2024-05-01 12:00:00 INFO ", "loading\nweights restored\nserving"), id="a calm log"),
    ],
)
def test_a_text_without_an_error_is_said_to_have_none(text: str) -> None:
    """No class is made up for it; on the command line it is one line and exit code 1."""
    with pytest.raises(NothingToExplain, match="no error was found"):
        explain(text)


def test_one_line_and_exit_code_1_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With ``--json`` as well: nothing is printed that could be taken for an answer."""
    (tmp_path / "calm.log").write_text("hello world\n")
    assert call(["explain", "--json", str(tmp_path / "calm.log")]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1


def test_nothing_heavy_is_imported() -> None:
    """Explaining needs neither TensorFlow nor MLflow, so it answers at once."""
    code = (
        "import sys; from mlflow_resilience.explain import explain; explain('Killed');"
        "print([name for name in ('tensorflow', 'keras', 'mlflow', 'numpy') if name in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
