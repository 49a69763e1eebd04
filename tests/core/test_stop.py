"""Requests to end, as the process that trains hears them."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from mlflow_resilience.stop import STOP, StopRequests


def heard(stop: StopRequests) -> str | None:
    """What was asked, once the listening thread has read it."""
    threading.Event().wait(0.05)
    return stop.asked


@pytest.mark.parametrize("number", STOP)
def test_the_first_signal_is_what_was_asked_and_those_right_after_it_are_the_same(number: signal.Signals) -> None:
    stop = StopRequests(patience=60.0)
    with stop.listening():
        os.kill(os.getpid(), number)
        assert heard(stop) == number.name
        for again in STOP:
            os.kill(os.getpid(), again)
        assert heard(stop) == number.name
        stop.served.set()


def test_one_that_comes_again_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = StopRequests(patience=60.0)
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard(stop) == "SIGTERM"
        stop._at -= 2.1  # as if so long ago
        with pytest.raises(KeyboardInterrupt, match="again to end, by SIGINT"):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(1.0)
        stop.served.set()


def test_the_signal_that_somebody_else_got_is_the_one_that_counts() -> None:
    for told, expected in {"SIGUSR1": "SIGUSR1", "the end of its parent": "SIGTERM", None: "SIGTERM"}.items():
        stop = StopRequests(patience=60.0, passed_on=lambda told=told: told)  # type: ignore[misc]
        with stop.listening():
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard(stop) == expected
            stop.served.set()


def test_training_that_comes_to_no_boundary_is_asked_for_again_and_again_until_it_is_served() -> None:
    """The first time it may stand in a step, the next time it waits for data."""
    stop, looked = StopRequests(patience=0.01), threading.Semaphore(0)
    stop.stuck = lambda signal: looked.release()
    with stop.listening():
        os.kill(os.getpid(), signal.SIGTERM)
        assert all(looked.acquire(timeout=10.0) for _ in range(3))
        stop.served.set()


def test_outside_of_training_signals_are_as_they_were() -> None:
    before = {number: signal.getsignal(number) for number in STOP}
    with StopRequests().listening():
        assert all(signal.getsignal(number) != handler for number, handler in before.items())
    assert {number: signal.getsignal(number) for number in STOP} == before
