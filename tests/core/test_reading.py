"""Facts out of pasted text; the class of whole texts is tested with `explain`."""

from __future__ import annotations

import signal

import pytest

from mlflow_resilience.core.fault import Cause
from mlflow_resilience.core.logs import lines_of
from mlflow_resilience.core.reading import read_fault

CHAIN = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
OSError: [Errno 5] Input/output error

{}, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
pkg.errors.OwnError: cannot read
in two lines

"""
CONTEXT = CHAIN.format("During handling of the above exception")
CAUSE = CHAIN.format("The above exception was the direct cause of the following exception")


def test_bare_message() -> None:
    """A message with its exception's name, and one without."""
    fault = read_fault("requests.exceptions.ConnectionError: no route\nsecond line")
    assert (fault.exception, fault.message) == ("ConnectionError", "no route\nsecond line")
    assert fault.type_names == ("requests.exceptions.ConnectionError",)
    assert read_fault("something odd").exception == ""
    assert read_fault("BadZipFile: File is not a zip file").exception == "BadZipFile"


def test_chain_of_tracebacks() -> None:
    """The last is the exception, what it came from is its chain, with how it came from it."""
    fault = read_fault(CONTEXT)
    assert (fault.exception, fault.message) == ("OwnError", "cannot read\nin two lines")
    assert fault.chain == (Cause("OSError", "[Errno 5] Input/output error", "context"),)
    assert read_fault(CAUSE).chain[0].relation == "cause"
    assert fault.traceback.startswith("Traceback")


def test_traceback_cut_off() -> None:
    """A traceback whose exception is missing still gives what there is."""
    assert read_fault("Traceback (most recent call last):\n  File 'a.py', line 1").exception == ""
    told = "ValueError                 Traceback (most recent call last)\n<ipython-input-1> in <module>()\n----> 1 f()"
    assert read_fault(told).exception == "ValueError"


def test_one_traceback_cut_off_by_the_next() -> None:
    """A second traceback that begins within the first one's frames is read on its own."""
    told = 'Traceback (most recent call last):\n  File "a.py", line 1\n' + CONTEXT
    assert read_fault(told).exception == ""


def test_message_ends_where_the_log_goes_on() -> None:
    """Lines of a logger or of training after the message do not belong to it; TensorFlow's own further lines do."""
    told = "Traceback (most recent call last):\n  File 'a.py', line 1\nValueError: bad\n"
    assert read_fault(told + "2024-01-01 10:00:00 INFO go on").message == "bad"
    assert read_fault(told + "Epoch 2/3").message == "bad"
    assert read_fault(told + "\nshell prompt").message == "bad"
    assert read_fault(told + "2 root error(s) found.\n  (0) x").message == "bad\n2 root error(s) found.\n  (0) x"
    graph = told.replace("bad", "Graph execution error:") + "\nDetected at node x\n\nfree text\n\t [[{{node x}}]]\n\nno"
    assert read_fault(graph).message.endswith("[[{{node x}}]]")


@pytest.mark.parametrize(
    ("told", "number"),
    [
        ("Segmentation fault (core dumped)", signal.SIGSEGV),
        ("Aborted (core dumped)", signal.SIGABRT),
        ("Killed", signal.SIGKILL),
        ("Terminated", signal.SIGTERM),
        ("Process finished with exit code 137", signal.SIGKILL),
        ("nothing of the kind", None),
    ],
)
def test_deaths(told: str, number: int | None) -> None:
    """What a shell says of a process's end is read as its signal."""
    assert read_fault(told).signal == number


def test_log_without_traceback() -> None:
    """The earliest line that tells of a fault leads, deaths come last, and what training survived is passed over."""
    log = """2024-01-01 10:00:00 ERROR an old failure
Epoch 2/3
2024-01-01 10:00:01 ERROR cannot read shard 7
2024-01-01 10:00:02 ERROR worker died
Killed"""
    fault = read_fault(log)
    assert fault.message == "cannot read shard 7"
    assert [cause.message for cause in fault.chain] == ["Killed", "worker died"]
    assert read_fault("2024-01-01 10:00:00 INFO a\n2024-01-01 10:00:00 INFO b\nKilled").signal == signal.SIGKILL
    assert (
        read_fault("2024-01-01 10:00:00 ERROR it failed\n2024-01-01 10:00:01 INFO a\nEpoch 3/3").message == "it failed"
    )
    assert read_fault("2024-01-01 10:00:00 INFO a\n2024-01-01 10:00:01 INFO b").message == ""


def test_levels_of_lines() -> None:
    """The level is read from a word, or from TensorFlow's letter."""
    told = (
        "2024-01-01 10:00:00,1 ERROR it failed\nE tensorflow/x.cc:3] it failed\nI0000 00:00:17.1 22 x.cc:3] it failed"
    )
    lines = lines_of(told)
    assert [(line.text, line.level) for line in lines] == [("it failed", "E"), ("it failed", "E"), ("it failed", "I")]
    assert [line.is_notable for line in lines] == [True, True, False]


def test_ranks_are_taken_off_together() -> None:
    """A number before every line is the task's; before one line it belongs to the line."""
    assert [line.text for line in lines_of("0: a\n1: b")] == ["a", "b"]
    assert [line.text for line in lines_of("404: Not Found")] == ["404: Not Found"]


def test_a_newline_in_json_is_one() -> None:
    """A text within one line of JSON is unfolded; a path with a backslash in several lines is not."""
    assert len(lines_of('"a\\nb"')) == 2
    assert len(lines_of("C:\\new\nx")) == 2


def test_long_logs_keep_what_matters() -> None:
    """Of a very long log the surroundings of tracebacks and the end are read."""
    filler = [f"line {i}" for i in range(10_000)]
    kept = lines_of("\n".join([*filler, "Traceback (most recent call last):", "ValueError: x", *filler]))
    assert "ValueError: x" in [line.text for line in kept]
    assert len(kept) < 4_000
    assert len(lines_of("\n".join(filler))) == 3_000
