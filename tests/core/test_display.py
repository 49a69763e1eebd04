"""What the terminal is told, in words; and that a slow one holds nobody up."""

from __future__ import annotations

import io
import threading
from typing import Any

from mlflow_resilience.display.narrator import Narrator
from mlflow_resilience.display.screen import PlainScreen
from mlflow_resilience.display.view import WAITING_CHARACTERS, TerminalView


def points(step: int, **metrics: float) -> dict[str, Any]:
    return {"kind": "points", "attempt": 1, "points": [[key, step, value, 0] for key, value in metrics.items()]}


def attempt(number: int, step: int = 0, epoch: int = 0) -> dict[str, Any]:
    return {"kind": "attempt", "attempt": number, "step": step, "epoch": epoch, "settings": {}}


JOB = {"kind": "job", "config": {"epochs": 10}}


def test_an_epoch_is_one_line_and_a_batch_none() -> None:
    narrator = Narrator()
    narrator.lines(JOB)
    narrator.lines(attempt(1))
    assert narrator.lines(points(44, **{"batch/loss": 0.3})) == []
    assert narrator.lines(points(45, loss=0.25, val_accuracy=0.97654)) == [
        "epoch 1/10, step 45: loss 0.25, val_accuracy 0.9765"
    ]
    assert (narrator.progress.step, narrator.progress.total, narrator.progress.where) == (45, 450, "epoch 2/10")


def test_an_attempt_goes_on_counting_epochs_from_where_it_begins() -> None:
    narrator = Narrator()
    narrator.lines(attempt(2, step=99, epoch=2))
    assert narrator.progress.where == "attempt 2, epoch 3"
    assert narrator.lines(points(135, loss=0.25)) == ["epoch 3, step 135: loss 0.25"]
    assert narrator.progress.total is None, "an epoch's length cannot be told from a part of one"


def test_a_fit_that_tells_its_length_is_believed() -> None:
    narrator = Narrator()
    narrator.lines({"kind": "event", "name": "fit", "data": {"epochs": 4, "steps_per_epoch": 25}})
    assert narrator.progress.total == 100


def test_a_fault_is_one_line_and_a_stop_has_its_hint() -> None:
    narrator = Narrator()
    assert narrator.lines({"kind": "fault", "hint": "make it smaller"}) == []
    going_on = {"kind": "decision", "attempt": 1, "verdict": "continue", "text": "oom: split, because first"}
    assert narrator.lines(going_on) == ["attempt 1: oom: split, because first"]
    assert narrator.lines({**going_on, "verdict": "stop"})[-1] == "hint: make it smaller"


def test_the_next_attempt_tells_its_settings() -> None:
    settings = {"accumulation": 2, "learning_rate_scale": 0.5, "skipped_batches": [7]}
    assert Narrator().lines({"kind": "attempt", "attempt": 2, "step": 45, "settings": settings}) == [
        "attempt 2 goes on from step 45 (2 pieces a batch; learning rate x 0.5; without the batch of step 7)"
    ]
    assert Narrator().lines({"kind": "attempt", "attempt": 1, "step": 0, "settings": {}}) == []


def test_a_restart_is_one_line_with_its_parts_and_a_resume_is_told_once() -> None:
    narrator, told = Narrator(), []
    moments = ("ended", "judged", "started", "running", "imported", "restoring", "tracing", "stepped")
    for second, mark in enumerate(("started", "stepped", *moments)):
        told += narrator.lines({"kind": "mark", "mark": mark, "at": 100.0 + second, "attempt": 1})
    parts = "detection 1.0, wait 1.0, start 1.0, import 1.0, build 1.0, restore 1.0, trace 1.0"
    assert told == [f"training again after 7.0 s ({parts})"]
    assert narrator.lines({"kind": "event", "name": "lineage", "text": "resuming job x"}) == []
    assert narrator.lines({"kind": "resumed", "text": "resuming job x"}) == ["resuming job x"]


def test_entries_of_other_kinds_say_nothing() -> None:
    assert Narrator().lines({"kind": "gauges", "points": []}) == []
    assert Narrator().lines({}) == []


def test_a_terminal_that_takes_nothing_holds_nobody_up_and_the_rest_is_counted() -> None:
    gate = threading.Event()

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            gate.wait()
            return super().write(text)

    stream = Slow()
    view = TerminalView(PlainScreen(stream))
    line = "x" * 99 + "\n"
    for _ in range(2 * WAITING_CHARACTERS // len(line)):
        view.output(line)
    view.say("ours is never left out")
    gate.set()
    view.close()
    shown = stream.getvalue()
    assert "ours is never left out" in shown
    assert "lines of output left out here" in shown
    assert len(shown) < 1.2 * WAITING_CHARACTERS


def test_a_terminal_that_has_gone_is_no_reason_to_end() -> None:
    stream = io.StringIO()
    view = TerminalView(PlainScreen(stream))
    stream.close()
    view.output("lost\n")
    view.say("lost too")
    view.close()
