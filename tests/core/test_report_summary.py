"""A job in a few words: the verdict on its result, what it cost, the five lines."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience import summary
from mlflow_resilience.report.page import render
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.spool.summary import attempt_line, description_markdown, on_purpose
from mlflow_resilience.summary import summary_lines

_spec = importlib.util.spec_from_file_location("example_job", Path(__file__).with_name("example_job.py"))
assert _spec and _spec.loader
example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example)

Entry = dict[str, Any]
BEGUN: list[Entry] = [{"kind": "job", "time": 100.0, "started": 100.0}, example.attempt(1, 0, 0)]
FAULT = example.fault(1, 1, 60, "host_oom", 10)


def job(*entries: Entry, outcome: str | None = "recovered") -> JobRecord:
    found = JobRecord()
    for entry in [*BEGUN, *entries]:
        found.add(entry)
    if outcome:
        found.add({"kind": "job_ended", "time": 200.0, "outcome": outcome})
    return found


def reproducible(value: bool, reason: str = "a parallel map with random ops") -> Entry:
    return {"kind": "reproducible", "time": 1.0, "value": value, "reason": reason}


CHANGE = {"kind": "semantic_change", "time": 1.0, "step": 120, "text": "learning rate halved at step 120"}
CHECKPOINT = {"kind": "checkpoint", "time": 1.0, "step": 50}


@pytest.mark.parametrize(
    ("record", "word", "words"),
    [
        (job(outcome="clean"), "identical", "that of plain fit"),
        (job(*FAULT), "identical", "bit for bit"),
        (job(*FAULT, CHANGE, CHANGE), "changed", "result: learning rate halved at step 120."),
        (job(*FAULT, reproducible(False)), "not promised", "would not repeat itself (a parallel map with random ops)."),
        (job(*FAULT, reproducible(False), CHANGE), "changed", "Besides, even an undisturbed run"),
        (job(*FAULT, reproducible(True)), "identical", "bit for bit"),
        (job(*FAULT, example.attempt(2, 0, 1, accumulation=4)), "equal within rounding", "in pieces"),
        (job(*FAULT, example.attempt(2, 50, 1, learning_rate_scale=0.5)), "changed", "scaled by 0.5 from step 50"),
        (job(*FAULT, example.attempt(2, 50, 1, skipped_batches=[61])), "changed", "left out at steps 61"),
        (job(*FAULT, {"kind": "event", "name": "quarantine"}), "changed", "records left out (1 quarantine)"),
        (job(*FAULT, outcome="failed"), "no result", "No checkpoint was made"),
        (job(*FAULT, CHECKPOINT, outcome="failed"), "no result", "newest checkpoint is that of step 50"),
        (job(CHECKPOINT, CHANGE, outcome="preempted"), "unfinished", "the same command goes on"),
        (job(CHECKPOINT, CHANGE, outcome=None), "running", "Changed so far: learning rate"),
    ],
)
def test_verdict(record: JobRecord, word: str, words: str) -> None:
    """One fixed word, and a sentence that says why; what is not reproducible is never called identical."""
    found = summary.verdict(record)
    assert found.word == word
    assert words in found.sentence


def test_a_replay_that_differs_is_not_called_identical() -> None:
    """The committed value and the replayed one are both named."""

    def points(attempt: int, value: float) -> Entry:
        return {"kind": "points", "time": 1.0, "attempt": attempt, "points": [["loss", 40, value, 1]]}

    record = job(points(1, 0.5), CHECKPOINT, *FAULT, example.attempt(2, 0, 1), points(2, 0.75))
    found = summary.verdict(record)
    assert found.word == "changed"
    assert "loss at step 40 was 0.5 and on replay 0.75" in found.sentence


def test_cost_from_what_was_counted_or_from_the_attempts() -> None:
    record = example.record()
    assert [summary.cost(record, fault) for fault in record.faults][:3] == [
        None,
        summary.Cost(10, 2.6),
        summary.Cost(18, 4.4),
    ]
    counted_out = job(*FAULT, example.ended(1, 60, 11), example.attempt(2, 50, 12))
    assert summary.cost(counted_out, counted_out.faults[0]) == summary.Cost(10, None)
    assert summary.cost(job(*FAULT), job(*FAULT).faults[0]) is None
    assert summary.lost_steps(record) == 90


def test_goodput_measured_told_or_unknown() -> None:
    assert summary.goodput(job()) is None
    told = job({"kind": "gauges", "points": [["resilience/goodput", 10, 0.25, 1], ["resilience/goodput", 20, 0.75, 2]]})
    assert summary.goodput(told) == 0.75
    told = {"time": 160.0, "pid": 1, "productive": 40.0, "startup": 10.0}
    over = {"kind": "attempt_ended", "time": 160.0, "attempt": 1, "status": "FINISHED"}
    counted = job({"kind": "times", "attempt": 1, **told}, over)
    assert summary.goodput(counted) == pytest.approx(0.4)
    parts = {"productive": 40.0, "startup": 20.0, "save_stall": 40.0}
    assert summary.time_parts(counted) == {part: pytest.approx(seconds) for part, seconds in parts.items()}


def test_five_lines() -> None:
    assert summary.summary_lines(example.record()) == [
        "Recovered: finished in 5 attempts after 5 faults (1 min 37 s)",
        "faults: bad_data at step 34, unknown at step 60, device_oom at step 118, process_death at step 140, "
        "divergence at step 170",
        "result: Recovery changed the result: learning rate halved from step 150; 1 record left out from step 34.",
        f"cost: 90 steps lost, goodput {summary.goodput_words(example.record())}",
        "last: accuracy 0.8727, loss 0.3309, val_accuracy 0.8577, val_loss 0.4006",
    ]


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (job(outcome="clean"), "Finished without a fault, 0 steps"),
        (job({"kind": "resumed"}, outcome="clean"), "Finished without a fault, 0 steps; the result is identical, bit"),
        (job(*FAULT), "Recovered: finished in 1 attempt after 1 fault; the result is identical, bit for bit"),
        (job(*FAULT, CHANGE), "Recovered: finished in 1 attempt after 1 fault; the result is changed"),
        (job(*FAULT, reproducible(False)), "after 1 fault; the result is not promised to repeat itself"),
        (job(*FAULT, outcome="failed"), "Failed at step 0, after 1 attempt and 1 fault"),
        (job(outcome=None), "Running: step 0, attempt 1, 0 faults so far"),
    ],
)
def test_the_headline_says_whether_the_result_is_still_good(record: JobRecord, told: str) -> None:
    """Unless nothing happened, or there is no result yet."""
    assert told in summary.headline(record)
    assert ("result" in told) == ("result" in summary.headline(record))


def spent(seconds: float, **parts: float) -> JobRecord:
    """A job of so many seconds."""
    told = {"kind": "times", "attempt": 1, "time": 100.0 + seconds, "pid": 1, **parts}
    over = {"kind": "attempt_ended", "time": 100.0 + seconds, "attempt": 1, "status": "FINISHED"}
    found = job(told, over, outcome=None)
    found.add({"kind": "job_ended", "time": 100.0 + seconds, "outcome": "clean"})
    return found


def test_the_goodput_of_a_short_job_says_what_the_rest_was() -> None:
    """A few seconds of training after the start of TensorFlow are no sign of trouble, and do not look like one."""
    short = summary.goodput_words(spent(20.0, startup=16.0, productive=4.0))
    assert short == "20% of 20 s, the rest mostly start of processes (16 s, as in any short job)"
    slow = summary.goodput_words(spent(4000.0, startup=10.0, productive=2000.0, data_wait=1990.0))
    assert slow == "50% of 1 h 06 min, the rest mostly waiting for data (33 min 10 s)"
    assert summary.goodput_words(spent(4000.0, startup=10.0, productive=3990.0)) == "100%"
    assert summary.goodput_words(job()) == ""


@pytest.mark.parametrize("outcome", ["clean", "failed", "preempted", None, "something new"])
def test_five_lines_of_any_job(outcome: str | None) -> None:
    """Of one with nothing in it too, and none of them with a control character."""
    bad = example.fault(1, 1, 3, "cl\x1b[2Jass\nname\x07", 3)
    for record in (JobRecord(), job(outcome=outcome), job(*bad, outcome=outcome)):
        lines = summary.summary_lines(record)
        assert len(lines) == 5
        assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (90_000, "1 d 1 h"),
        (-1, "unknown"),
        (math.nan, "unknown"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert summary.duration(seconds) == words


def test_clean_text() -> None:
    """Escape sequences, control characters and halves of surrogate pairs are gone; long text is cut in the middle."""
    assert summary.clean(
        "\x1b[1;31mred\x1b[0m\x1b]0;title\x07\ta\r\nb\x00\ud800"
    ) == "red\ta\nb\N{REPLACEMENT CHARACTER}" * 1 + ("\N{REPLACEMENT CHARACTER}")
    assert summary.clean("a" * 60 + "b" * 60, 30) == "a" * 20 + " … " + "b" * 10
    assert summary.one_line("  a\n b  ") == "a b"
    assert summary.count(1, "step") == "1 step" and summary.count(2000, "step") == "2,000 steps"


def test_standard_library_alone() -> None:
    code = (
        "import sys; from mlflow_resilience import summary;"
        "assert not {'numpy', 'matplotlib', 'jinja2', 'psutil', 'mlflow', 'tensorflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_the_description_says_once_whether_the_result_is_good_and_what_was_handled_in_place() -> None:
    record = example.record()
    text = description_markdown(record, summary.verdict(record).sentence)
    assert "Result: Recovery changed the result: learning rate halved from step 150; 1 record left out" in text
    assert text.count("learning rate halved") == 1
    assert "Handled in place: 1 (bad_data)\n\n- find and leave out the bad records, train the rest" in text


def test_what_was_done_on_purpose_is_said() -> None:
    """In the five lines, on the page's top and in the description: nobody takes a rehearsal for a real fault."""
    struck = {"kind": "event", "name": "fault_on_purpose", "data": {"fault": "oom@60x2"}}
    record = job(struck, struck, struck | {"data": {"fault": "kill@70"}})
    assert on_purpose(record) == "oom@60x2 (2 times), kill@70"
    assert "on purpose: oom@60x2 (2 times), kill@70" in summary_lines(record)[1]
    assert "Faults on purpose: oom@60x2 (2 times), kill@70" in description_markdown(record)
    assert "told to suffer" in render(record)
    assert not on_purpose(job()) and "on purpose" not in render(job()) + "".join(summary_lines(job()))


def test_the_description_of_a_failed_job_has_the_message_and_says_nothing_twice() -> None:
    """The exception's own words, as code; the last decision stands in the attempt's line."""
    told = "unknown (ValueError) in step 3 (epoch 1): stop, because trying again cannot help"
    record = JobRecord()
    for entry in [
        {"kind": "attempt", "attempt": 1},
        {
            "kind": "fault",
            "attempt": 1,
            "number": 1,
            "fault": {"exception": "ValueError", "message": "a `b`\nis wrong"},
        },
        {"kind": "decision", "attempt": 1, "number": 1, "verdict": "stop", "text": told, "basis": "stop_class"},
        {"kind": "job_ended", "outcome": "failed", "text": told},
    ]:
        record.add(entry)
    text = description_markdown(record)
    assert "`ValueError: a 'b' is wrong`" in text and text.count("trying again cannot help") == 1


def test_an_attempt_that_went_on_as_the_next_one_did_not_finish() -> None:
    """Other settings without a fault end an attempt; the last one alone has finished."""
    record = JobRecord()
    for number in (1, 2):
        record.add({"kind": "attempt", "attempt": number, "step": 4 * number - 4})
        record.add({"kind": "attempt_ended", "attempt": number, "status": "FINISHED", "step": 4 * number})
    assert [attempt_line(each) for each in record.attempts] == [
        "continued, from step 0 to step 4",
        "finished, from step 4 to step 8",
    ]
