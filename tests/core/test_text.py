"""What the text of an error says beside its sentence."""

from __future__ import annotations

import pytest

from mlflow_resilience.core import text

GRAPH = """Graph execution error:

Detected at node 'dense/MatMul' defined at (most recent call last):
    File "train.py", line 9, in <module>
      model.fit(x)

    File "keras/trainer.py", line 3, in fit
      raise ValueError("out of memory")
Node: 'dense/MatMul'
2 root error(s) found.
  (0) INVALID_ARGUMENT:  Matrix size-incompatible: In[0]: [32,784], In[1]: [100,10]
\t [[{{node dense/MatMul}}]]
\t [[IteratorGetNext/_4]]
  (1) CANCELLED:  Function was cancelled before it was started
0 successful operations.
0 derived errors ignored. [Op:__inference_train_function_7]"""

NESTED = """Graph execution error:

OSError: [Errno 5] Input/output error
Traceback (most recent call last):

  File "script_ops.py", line 269, in __call__
    return func(device, token, args)

OSError: [Errno 5] Input/output error


\t [[{{node PyFunc}}]]"""


def test_clean_keeps_what_was_said() -> None:
    """Stacks, node names and TensorFlow's own headings go; the sentences stay."""
    assert text.clean(GRAPH).splitlines() == [
        "(0) INVALID_ARGUMENT:  Matrix size-incompatible: In[0]: [32,784], In[1]: [100,10]",
        "(1) CANCELLED:  Function was cancelled before it was started",
    ]


def test_clean_drops_hints_and_the_stack_at_the_end() -> None:
    """A hint about memory says nothing about this error, and a stack trace ends the message."""
    told = "no room\nHint: If you want to see tensors when OOM happens\nstill\nOriginal stack trace for 'x':\n  OOM"
    assert text.clean(told) == "no room\nstill"


def test_roots_are_taken_apart() -> None:
    """Each numbered root error is read on its own."""
    first, second = text.roots(GRAPH)
    assert first.startswith("INVALID_ARGUMENT:")
    assert second.startswith("CANCELLED:")
    assert text.roots("plain") == []


def test_python_originals_are_read_out_once() -> None:
    """The Python exception within TensorFlow's text is found, though printed twice."""
    assert text.originals(NESTED) == [("OSError", "[Errno 5] Input/output error")]
    assert text.originals("UNKNOWN: my.pkg.OddError: bad") == [("OddError", "bad")]
    assert text.originals("nothing raised") == []


@pytest.mark.parametrize(
    ("exception", "message", "expected"),
    [
        ("XlaRuntimeError", "RESOURCE_EXHAUSTED: no room", "RESOURCE_EXHAUSTED"),
        ("InternalError", "Resource exhausted: no room", "RESOURCE_EXHAUSTED"),
        ("_InactiveRpcError", "status = StatusCode.UNAVAILABLE", "UNAVAILABLE"),
        ("DataLossError", "corrupted", "DATA_LOSS"),
        ("ValueError", "wrong", None),
    ],
)
def test_status(exception: str, message: str, expected: str | None) -> None:
    """The canonical code comes from the text first, then from the class."""
    assert text.status(exception, message) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("[Errno 28] No space left", 28),
        ("errno = 11, error message", 11),
        ("(os error 24)", 24),
        ("x.tfrecord; Input/output error", 5),
        ("failed with error code 403", None),
        ("all is well", None),
    ],
)
def test_errno(message: str, expected: int | None) -> None:
    """The system's number is read as a number or by name, and no other number is taken for it."""
    assert text.errno(message) == expected


def test_shorten_keeps_head_and_tail() -> None:
    """A long text keeps its begin and, at greater length, its end."""
    told = "head" + "x" * 1000 + "tail"
    short = text.shorten(told, 100)
    assert short.startswith("head")
    assert short.endswith("tail")
    assert "908 characters left out" in short
    assert text.shorten("short", 100) == "short"


def test_consequences() -> None:
    """A cancelled call or a closed socket follows from something else."""
    assert text.is_consequence("CancelledError", "")
    assert text.is_consequence("UnavailableError", "Socket closed")
    assert not text.is_consequence("OSError", "[Errno 5] Input/output error")
