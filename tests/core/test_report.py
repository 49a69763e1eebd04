"""The page of a job: complete, small, self-contained, and nothing from the record gets out of its place."""

from __future__ import annotations

import importlib.util
import math
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mlflow_resilience.report import render
from mlflow_resilience.report.view import _places
from mlflow_resilience.spool.record import FaultRecord, JobRecord

_spec = importlib.util.spec_from_file_location("example_job", Path(__file__).with_name("example_job.py"))
assert _spec and _spec.loader
example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(example)


class Page(HTMLParser):
    """What a browser would make of the page, as far as the tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._hidden = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag if tag in ("style", "script") else ""

    def handle_endtag(self, tag: str) -> None:
        self._hidden = ""

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def assert_harmless(text: str) -> Page:
    page = Page(text)
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "object", "embed", "form", "base", "a", "foreignobject", "image"}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "action")]
        assert (attributes.get("href") or attributes.get("xlink:href") or "#")[:1] in ("#", "d")
    assert not re.search(r"(?:@import|url\((?!#))", text)
    return page


def test_it_answers_the_three_questions() -> None:
    """What went wrong, what was done, is the result still good: all in the upper part of the page."""
    page = assert_harmless(render(example.record()))
    upper = page.text[: page.text.index("Attempts")]
    for words in (
        "Recovered: finished in 5 attempts after 5 faults",
        "device_oom at step 118 ResourceExhaustedError: Out of memory while trying to allocate 6.52GiB.",
        "train each batch in 2 pieces (device_oom)",
        "Recovery changed the result: learning rate halved from step 150; 1 record left out from step 34.",
        "42%",
        "90 lost",
    ):
        assert words in upper


def test_it_holds_all_parts() -> None:
    page = Page(render(example.record()))
    headings = re.findall(r"<h2[^>]*>([^<]*)</h2>", render(example.record()))
    assert headings == [
        "What went wrong?",
        "What was done?",
        "Is the result still good?",
        "Attempts",
        "Training curves",
        "Memory",
        "Faults",
        "Where the time went",
        "Result and lineage",
        "Tracebacks",
        "Details",
    ]
    for words in (
        "accumulation: 1 → 2",
        "jit memory is lost",
        "40 steps, 10 s",
        "2,650 MB",
        "training that counts 41 s 41.8 %",
        "4 written",
        "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "/data/猫/0034.jpg",
        "hint: batch of 64 needs about 6.5 GiB at once; 32 would fit",
        "(the same 3 times)",
        "batch_size 64",
    ):
        assert words in page.text


def test_a_restart_is_split_into_its_parts() -> None:
    heading = "From the end of a process to the next one's first step"
    assert heading not in Page(render(example.record())).text
    moments = ("ended", "judged", "started", "running", "imported", "restoring", "tracing", "stepped")
    at = (0.0, 0.06, 0.07, 0.3, 8.3, 9.0, 9.4, 11.25)
    marks = [{"kind": "mark", "mark": mark, "at": 100 + at, "attempt": 2} for mark, at in zip(moments, at, strict=True)]
    page = assert_harmless(render(example.record(*marks)))
    below = page.text[page.text.index(heading) :]
    for words in ("attempt 2 to the next 0.06 s", "8.00 s 0.70 s 0.40 s 1.85 s 11.25 s"):
        assert words in below


def test_it_is_small_quick_and_well_formed() -> None:
    text = render(example.record())
    assert len(text.encode()) < 400_000
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert sum(tag == "h1" for tag, _ in page.tags) == 1
    assert all(attributes.get("aria-label") for tag, attributes in page.tags if tag == "svg")
    labelled = {attributes["aria-labelledby"] for tag, attributes in page.tags if "aria-labelledby" in attributes}
    assert labelled <= set(ids)


@pytest.mark.parametrize("text", example.HOSTILE, ids=range(len(example.HOSTILE)))
def test_nothing_of_the_record_is_markup(text: str) -> None:
    """A hostile text in every place of the record changes no tag of the page."""
    page = assert_harmless(render(example.poisoned(text)))
    if len(text) < 1000:  # a text that is cut can differ from itself in another place
        assert structure(page) == structure(Page(render(example.poisoned("harmless"))))
    assert "49" not in page.text or "{{" not in text
    assert "\x1b" not in page.text and "\x00" not in page.text


def structure(page: Page) -> list[str]:
    """The tags that are ours, without those of the drawing."""
    return [tag for tag, _ in page.tags if tag not in ("path", "g", "use", "text", "tspan", "defs", "rect")]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"kind": "job", "time": 1.0}],
        [{"kind": "fault"}],
        [{"kind": "fault", "fault": {"position": None, "chain": None}, "memory": None}, {"kind": "decision"}],
        [{"kind": "attempt", "attempt": 1}, {"kind": "job_ended", "outcome": "failed"}],
        [{"kind": "checkpoint"}, {"kind": "event"}, {"kind": "semantic_change"}, {"kind": "unheard_of", "x": 1}],
    ],
    ids=["nothing", "begun", "bare fault", "empty fields", "failed at once", "bare entries"],
)
def test_a_record_with_hardly_anything_renders(entries: list[dict[str, Any]]) -> None:
    record = JobRecord()
    for entry in entries:
        record.add(entry)
    assert "Is the result still good?" in assert_harmless(render(record)).text


def test_a_job_that_went_through_very_much_stays_small_and_quick() -> None:
    """1,000 attempts, 3,000 faults handled in place, long tracebacks that all differ, 10,000 points."""
    record = example.record()
    for number in range(6, 1006):
        record.add(example.attempt(number, 200, 100 + number))
        for entry in example.fault(
            number,
            number,
            210,
            "transient_io",
            100 + number,
            message="<" * 2000,
            traceback=f"{number}" + "<&>" * 20_000,
        ):
            record.add(entry)
        record.add(example.ended(number, 210, 101 + number))
    for number in range(3000):
        for entry in example.fault(2000 + number, 5, 199, "bad_data", 90, in_place=True):
            record.add(entry)
    for entry in example.points(1005, 200, 10_200):
        record.add(entry)
    began = time.process_time()
    text = render(record)
    assert time.process_time() - began < 15
    assert len(text.encode()) < 1_000_000
    page = assert_harmless(text)
    assert "3000 times" in page.text
    assert "attempts are left out here" in page.text
    assert "it is in the run's artifacts" in page.text


@pytest.mark.full
def test_twenty_attempts_of_ten_thousand_steps_stay_below_a_megabyte() -> None:
    """Each with its points, its fault and its checkpoints, drawn wide and narrow."""
    record = JobRecord()
    for entry in example.entries()[:2]:
        record.add(entry)
    for number in range(1, 21):
        first = (number - 1) * 9_000
        record.add(example.attempt(number, first, 10.0 * number))
        for entry in example.points(number, first, first + 10_000):
            record.add(entry)
        record.add(example.checkpoint(first + 9_000, number))
        for entry in example.fault(number, number, first + 10_000, "transient_io", 10.0 * number + 9):
            record.add(entry)
        record.add(example.ended(number, first + 10_000, 10.0 * number + 9))
    began = time.process_time()
    text = render(record)
    assert time.process_time() - began < 15
    assert len(text.encode()) < 1_000_000
    assert "Running: step 181,000, attempt 20, 20 faults so far" in assert_harmless(text).text


@pytest.mark.parametrize("values", [[math.nan] * 6, [1.0, math.nan, math.inf, 0.5, -math.inf, 0.25]])
def test_curves_that_are_not_numbers_are_drawn_as_far_as_they_are(values: list[float]) -> None:
    record = JobRecord()
    points = [["loss", step, value, step] for step, value in enumerate(values, 1)]
    for entry in [
        {"kind": "job", "time": 1.0, "run_name": 'it\'s "<b>" 图像'},
        example.attempt(1, 0, 1),
        {"kind": "points", "time": 2.0, "attempt": 1, "points": points},
        {"kind": "job_ended", "time": 9.0, "outcome": "clean"},
    ]:
        record.add(entry)
    page = assert_harmless(render(record))
    assert 'it\'s "<b>" 图像' in page.text


def test_the_root_cause_is_told_without_the_graphs_own_stack() -> None:
    """As TensorFlow words an error of a node: where in the graph, a stack from the interpreter on, and then what."""
    stack = "".join(f'  File "/usr/lib/part_{number}.py", line {number}, in call\n\n' for number in range(60))
    message = (
        f"Graph execution error:\n\nDetected at node loss/Sparse defined at (most recent call last):\n{stack}"
        "Received a label value of 11 which is outside the valid range\n\t [[{{node loss/Sparse}}]] [Op:__x_1]"
    )
    record = JobRecord()
    for entry in example.fault(1, 1, 60, "bad_data", 1, exception="InvalidArgumentError", message=message):
        record.add(entry)
    upper = Page(render(record)).text.partition("What was done?")[0]
    assert "InvalidArgumentError: Received a label value of 11 which is outside the valid range" in upper
    assert "most recent call" not in upper


def test_one_wording_for_where_and_what() -> None:
    """A fault's place is that of its judge, said once; a decision that says why needs no basis behind it."""
    record = JobRecord()
    facts = {"exception": "Divergence", "message": "the loss is nan", "position": {"global_step": 99, "epoch": 2}}
    told = "divergence (Divergence) in step 100 (epoch 3): leave it out, because it is the first fault of its class"
    for entry in [
        example.attempt(1, 0, 1),
        {"kind": "fault", "attempt": 1, "number": 1, "failure_class": "divergence", "fault": facts,
         "where": "in step 100 (epoch 3)", "hint": "lower the rate"},
        {"kind": "decision", "attempt": 1, "number": 1, "verdict": "stop", "text": told, "basis": "first"},
        {"kind": "job_ended", "outcome": "failed"},
    ]:  # fmt: skip
        record.add(entry)
    page = Page(render(record))
    upper = page.text[: page.text.index("Training curves") if "Training curves" in page.text else None]
    assert "at step 99" not in page.text and "basis: first" not in page.text
    assert "divergence in step 100 (epoch 3)" in upper
    assert "What was done? leave it out, because it is the first fault of its class" in upper
    assert "what you can do: lower the rate" in upper


def test_a_running_job_says_as_of_when() -> None:
    record = JobRecord()
    for entry in example.entries()[:30]:
        record.add(entry)
    text = Page(render(record)).text
    assert "Still running" in text and "as of 2027-01-15" in text


def test_faults_of_one_class_are_placed_as_each_alone_is() -> None:
    """A step that fails is the one after those that were done, in the group's line as in its own."""
    faults = [
        FaultRecord(number, 1, 1.0, {"phase": phase, "position": {"global_step": step}})
        for number, (phase, step) in enumerate([("step", 39), ("data", 59), ("process", 70)], 1)
    ]
    assert _places(faults) == "at step 40, 60, 70"
