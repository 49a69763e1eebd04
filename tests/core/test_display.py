"""What the terminal is told, in words; and that a slow one holds nobody up."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from mlflow_resilience.display.aside import Aside
from mlflow_resilience.display.narrator import Narrator, Progress
from mlflow_resilience.display.screen import QUIET_SECONDS, JsonScreen, PlainScreen
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


class Clock:
    """Seconds that the test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rate_and_time_left_are_those_of_the_last_minute() -> None:
    """Neither a resume at a late step nor a roll-back makes training look quicker than it is."""
    clock = Clock()
    narrator = Narrator(clock)
    narrator.lines({"kind": "event", "name": "fit", "data": {"epochs": 10, "steps_per_epoch": 100}})
    narrator.lines(attempt(1))
    assert narrator.progress.pace == ""
    for clock.now, step in ((10.0, 20), (20.0, 40)):
        narrator.at(step, "step")
    assert narrator.progress.pace == "2 steps/s, 8 min 00 s left"
    (line,) = narrator.lines(points(100, loss=0.5))
    assert line.startswith("epoch 1/10, step 100: loss 0.5 (5 steps/s, ")
    assert narrator.lines(points(1000, loss=0.25)) == ["epoch 2/10, step 1000: loss 0.25"], "nothing is left"
    narrator.lines(attempt(2, step=50))
    assert narrator.progress.pace == "", "what was done before a roll-back tells nothing"
    for clock.now, step in ((30.0, 60), (40.0, 70)):
        narrator.at(step)
    assert narrator.progress.rate == 1.0


def test_a_new_process_does_not_begin_at_nothing() -> None:
    """Until it trains, what was reached stays, and the line says what is going on."""
    narrator = Narrator(Clock())
    assert narrator.progress.where == "start"
    narrator.lines(attempt(1))
    narrator.at(54, "step")
    narrator.at(0, "start")
    assert (narrator.progress.where, narrator.progress.step) == ("starting again", 54)
    narrator.lines(attempt(2, step=45))
    assert (narrator.progress.where, narrator.progress.step) == ("attempt 2, epoch 1", 45)


def test_an_epoch_without_a_length_has_a_rate_and_no_time_left() -> None:
    clock = Clock()
    narrator = Narrator(clock)
    narrator.lines(attempt(1))
    clock.now = 4.0
    narrator.at(10)
    assert narrator.progress.pace == "2.5 steps/s"


def test_a_long_silence_is_broken_by_a_line_where_there_is_no_terminal() -> None:
    """Once a minute, as long as the job gets further; a program that reads JSON is left alone."""
    clock, stream = Clock(), io.StringIO()
    screen = PlainScreen(stream, clock)
    told = Progress(attempt=2, phase="step", step=1200, epochs_done=2, steps_per_epoch=450, epochs=10, rate=12.0)
    screen.progress(told)
    assert stream.getvalue() == ""
    clock.now = QUIET_SECONDS
    screen.progress(told)
    screen.progress(told)
    assert stream.getvalue() == "attempt 2, epoch 3/10, step 1,200 of 4,500; 12 steps/s, 4 min 35 s left\n"
    clock.now *= 3
    screen.progress(told)
    assert stream.getvalue().count("\n") == 1, "it got no further"
    quiet = JsonScreen(stream, clock)
    clock.now *= 2
    quiet.progress(told)
    assert stream.getvalue().count("\n") == 1


TERMINAL = """
import sys
from mlflow_resilience.display import for_terminal
view = for_terminal()
view.entry({"kind": "event", "name": "fit", "data": {"epochs": 2, "steps_per_epoch": 100}})
for attempt, first in ((1, 0), (2, 50)):
    view.entry({"kind": "attempt", "attempt": attempt, "step": first, "epoch": 0, "settings": {}})
    for step in range(first, 90, 10):
        view.beat("step", step)
    view.output("a line of the worker's [red]as it is[/red]\\n")
    view.entry({"kind": "decision", "attempt": attempt, "verdict": "continue", "text": "[bold]go on\\x1b[2J"})
view.close()
"""


def test_on_a_terminal_one_bar_serves_all_attempts_and_garbles_nothing() -> None:
    """Lines stand above it, whole and as they are; what was told last below; and it is gone in the end."""
    parent, child = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen([sys.executable, "-c", TERMINAL], stdout=child, stderr=child, env=environ)
    os.close(child)
    said = b""
    with contextlib.suppress(OSError), os.fdopen(parent, "rb", buffering=0) as terminal:
        while part := terminal.read(65536):
            said += part
    assert process.wait(30) == 0
    text = said.decode()
    assert "\x1b[2J" not in text, "nothing of the job's moves the cursor"
    assert text.count("a line of the worker's [red]as it is[/red]\r\n") == 2
    assert "attempt 2 goes on from step 50" in text
    assert "attempt 2, epoch 1/2" in text
    assert text.rstrip().endswith("\x1b[?25h") or "\x1b[?25h" in text[-60:], "the cursor is back"


def test_beside_keras_a_fault_is_a_line_of_its_own_and_an_epoch_is_left_to_keras() -> None:
    stream = io.StringIO()
    aside = Aside(below_a_bar=True, stream=stream)
    aside({"kind": "attempt", "attempt": 1, "step": 0, "settings": {}})
    aside(points(45, loss=0.25))
    assert stream.getvalue() == ""
    aside({"kind": "fault", "hint": "make it smaller"})
    aside({"kind": "decision", "attempt": 1, "verdict": "stop", "text": "oom: stop\x1b[2J"})
    aside({"kind": "semantic_change", "text": "1 record left out"})
    assert stream.getvalue() == (
        "\nattempt 1: oom: stop\nhint: make it smaller\n\nthis changes the result: 1 record left out\n"
    )
