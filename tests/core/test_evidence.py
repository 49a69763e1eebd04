"""The root cause is asked first, whatever it led to."""

from __future__ import annotations

import signal

import pytest

from mlflow_resilience.core.evidence import links, own_links
from mlflow_resilience.core.failure import classify
from mlflow_resilience.core.fault import Cause, Fault
from mlflow_resilience.core.origin import packages
from mlflow_resilience.recoveries import BUILT_IN


def told(fault: Fault) -> list[str]:
    return [f"{link.exception}: {link.message}" for link in links(fault)]


def test_root_cause_first() -> None:
    """The innermost cause is asked before the exception itself."""
    fault = Fault(exception="RuntimeError", message="failed", chain=(Cause("A", "1"), Cause("B", "2")))
    assert told(fault) == ["B: 2", "A: 1", "RuntimeError: failed"]


def test_root_errors_within_a_message() -> None:
    """Of several root errors a cancelled one is asked after the others, though it be numbered first."""
    message = "2 root error(s) found.\n  (0) CANCELLED: stopped\n  (1) INVALID_ARGUMENT: bad\n0 successful operations."
    assert told(Fault(exception="X", message=message))[0] == "X: INVALID_ARGUMENT: bad"


def test_everyday_errors_as_context_explain_nothing() -> None:
    """A KeyError that was being handled is no root cause; one that was raised from is."""
    context = Fault(exception="E", message="real", chain=(Cause("KeyError", "'x'", "context"),))
    assert told(context)[0] == "E: real"
    cause = Fault(exception="E", message="real", chain=(Cause("KeyError", "'x'", "cause"),))
    assert told(cause)[0] == "KeyError: 'x'"


def test_lines_of_a_log_come_last() -> None:
    """What a log told around the fault is asked after the fault, and not where the chain alone counts."""
    fault = Fault(exception="E", message="real", chain=(Cause("", "noise", "log"),))
    assert told(fault)[:2] == ["E: real", ": noise"]
    assert ": noise" not in [f"{link.exception}: {link.message}" for link in own_links(fault)]


def test_facts_stay_with_their_link() -> None:
    """Bases, traceback, signal and error number belong to the exception, not to its causes."""
    fault = Fault(
        exception="E", message="m", type_names=("p.E",), traceback="t", signal=9, exit_code=1, errno=28,
        chain=(Cause("OSError", "[Errno 5] Input/output error"),),
    )  # fmt: skip
    cause, own = links(fault)
    assert (cause.type_names, cause.traceback, cause.signal, cause.exit_code, cause.errno) == ((), "", None, None, 5)
    assert (own.type_names, own.traceback, own.signal, own.exit_code, own.errno) == (("p.E",), "t", 9, 1, 28)
    assert links(Fault(exception="E", message="[Errno 5] x", errno=28))[0].errno == 5


def test_what_comes_up_through_the_iterator_is_data() -> None:
    """TensorFlow's note of the iterator sets the phase; a mere edge from it does not."""
    assert links(Fault(exception="E", message="bad\n\t [[{{node IteratorGetNext}}]]", phase="step"))[0].phase == "data"
    assert links(Fault(exception="E", message="bad\n\t [[IteratorGetNext/_4]]", phase="step"))[0].phase == "step"


def test_last_words_of_the_dead() -> None:
    """A dead process's output is asked before its signal."""
    fault = Fault(exception="SIGABRT", signal=6, phase="process", device="CPU", output_tail="ValueError: bad shape")
    first = links(fault)[0]
    assert (first.exception, first.signal, first.device) == ("ValueError", None, "CPU")
    assert links(fault)[-1].signal == 6


def test_packages_of_a_traceback() -> None:
    """Each frame's package, the innermost first."""
    traceback = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
  File "/x/lib/python3.11/site-packages/mlflow/fluent.py", line 3, in log
  File "/x/lib/python3.11/socket.py", line 80, in create_connection
TimeoutError: x"""
    assert packages(traceback) == ["python", "mlflow", "user"]
    assert packages("") == []


@pytest.mark.parametrize(
    "said",
    [
        "x.py:3: UserWarning: `shuffle=True` was passed, but will be ignored since the data is a tf.data.Dataset",
        "2026/11/30 20:45:45 WARNING mlflow.utils.checkpoint_utils: Checkpoint logging is skipped",
    ],
)
def test_what_a_killed_process_said_before_is_no_reason(said: str) -> None:
    fault = Fault(exception="SIGKILL", message="ended by SIGKILL", signal=signal.SIGKILL, output_tail=said)
    assert classify(fault, BUILT_IN).failure_class == "process_death"


def test_no_process_dies_of_a_warning() -> None:
    """Where a warning was the last word before a crash, the crash is what there is."""
    said = "x.py:3: UserWarning: the data shapes are incompatible with nothing"
    fault = Fault(exception="SIGSEGV", message="ended", signal=signal.SIGSEGV, output_tail=said)
    assert classify(fault, BUILT_IN).failure_class == "process_death"
