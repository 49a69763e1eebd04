"""From live exceptions to serialisable facts."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from mlflow_resilience.core.fault import Cause, Fault, Position, describe, signal_name
from mlflow_resilience.core.text import words


def caught(raiser: object) -> BaseException:
    try:
        raiser()  # type: ignore[operator]
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


class OwnError(ValueError):
    """Has its own message."""


def raise_chained() -> None:
    try:
        try:
            Path("/no/such/file").read_text()
        except OSError as error:
            raise OwnError("cannot read") from error
    except OwnError:
        raise RuntimeError("training failed")  # noqa: B904  its context is what is tested


def test_facts_of_a_chain() -> None:
    """Bases, causes and contexts, traceback and what the caller knows are all kept."""
    position = Position(global_step=7, epoch=1, step=2)
    fault = describe(caught(raise_chained), phase="step", position=position, device="CPU", batch_size=32)
    assert (fault.exception, fault.message, fault.phase) == ("RuntimeError", "training failed", "step")
    assert fault.type_names == ("builtins.RuntimeError", "builtins.Exception", "builtins.BaseException")
    assert [(cause.exception, cause.relation) for cause in fault.chain] == [
        ("OwnError", "context"),
        ("FileNotFoundError", "cause"),
    ]
    assert "The above exception was the direct cause" in fault.traceback
    assert (fault.global_step, fault.device, fault.batch_size) == (7, "CPU", 32)
    assert fault.errno is None, "a mere context's error number is not this fault's"
    assert fault.time > 0


def test_suppressed_context_is_left_out() -> None:
    """`raise ... from None` says that what was handled does not matter."""

    def raiser() -> None:
        try:
            dict[str, int]()["x"]
        except KeyError:
            raise OwnError("better said") from None

    assert describe(caught(raiser)).chain == ()


def test_own_errno() -> None:
    """The error number comes from the exception, or from its text."""
    assert describe(OSError(28, "No space left on device")).errno == 28
    assert describe(RuntimeError("x; Input/output error")).errno == 5


def test_python_original_in_a_text_joins_the_chain() -> None:
    """TensorFlow keeps the Python original as text alone."""
    error = RuntimeError("Graph execution error:\n\nValueError: bad record 7\nTraceback (most recent call last):\n")
    assert describe(error).chain == (Cause("ValueError", "bad record 7", "text"),)


def test_group_and_loop() -> None:
    """A group is led by its first exception, and a chain that bites its tail ends."""
    group = describe(ExceptionGroup("two", [OSError(5, "Input/output error"), ValueError("x")]))
    assert group.chain[0].exception == "OSError"
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert len(describe(first).chain) == 1


def test_unreadable_message() -> None:
    """A message that cannot be read does not hide the fault."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Broken()).message == "(its message could not be read)"


def test_long_texts_are_shortened_and_secrets_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Message and traceback keep head and tail, and no secret."""
    monkeypatch.setenv("MY_TOKEN", "correct-horse-battery")
    fault = describe(RuntimeError("begin " + "x" * 20_000 + " correct-horse-battery end"))
    assert len(fault.message) < 9_000
    assert fault.message.startswith("begin")
    assert fault.message.endswith("[redacted] end")
    assert "correct-horse" not in fault.traceback


def test_redacted_covers_every_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault made elsewhere is freed of secrets in all its texts."""
    monkeypatch.setenv("MY_SECRET", "correct-horse-battery")
    secret = "x correct-horse-battery"
    fault = Fault(
        exception="E", message=secret, chain=(Cause("A", secret),), traceback=secret, output_tail=secret
    ).redacted()
    assert "horse" not in json.dumps(fault.to_dict())


def test_through_json_and_back() -> None:
    """A fault survives the journal, and keys of a newer format are ignored."""
    fault = Fault(
        exception="SIGKILL", signal=9, position=Position(global_step=3), chain=(Cause("A", "b"),), type_names=("x.A",)
    )
    assert Fault.from_dict({**json.loads(json.dumps(fault.to_dict())), "newer": 1}) == fault
    assert Fault.from_dict({"exception": "E"}) == Fault(exception="E")


def test_questions() -> None:
    """The small questions that matchers ask."""
    fault = Fault(exception="OwnError", message="Out of room", type_names=("pkg.OwnError", "builtins.ValueError"))
    assert fault.is_a("ValueError")
    assert fault.is_a("pkg.OwnError")
    assert not fault.is_a("TypeError")
    assert fault.says(words(r"out of room"))
    assert fault.status is None
    assert fault.global_step == 0
    assert not fault.process_gone
    assert Fault(exception="Hang", silent_seconds=60.0).process_gone
    assert Fault(exception="x", phase="process").process_gone


def test_signal_names() -> None:
    """Signals are called by name where they have one."""
    assert signal_name(signal.SIGKILL) == "SIGKILL"
    assert signal_name(63) == "signal 63"
