"""A job in a few plain words: outcome, what went wrong, whether the result is still good, what it cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mlflow_resilience.spool.record import FaultRecord, JobRecord
from mlflow_resilience.spool.summary import on_purpose as on_purpose
from mlflow_resilience.time_use import duration as duration
from mlflow_resilience.time_use import elapsed as elapsed
from mlflow_resilience.time_use import goodput as goodput
from mlflow_resilience.time_use import goodput_words as goodput_words
from mlflow_resilience.time_use import time_parts as time_parts

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Verdict:
    """Whether the result is still good: one fixed ``word``, and a sentence that says why."""

    word: str  # identical | equal within rounding | changed | not promised | unfinished | no result | running
    sentence: str
    reasons: tuple[str, ...] = ()


#: How a verdict ends a headline; those of a job without a result say no more than its outcome.
_IN_HEADLINE = {
    "identical": "the result is identical, bit for bit",
    "equal within rounding": "the result is equal within rounding",
    "changed": "the result is changed",
    "not promised": "the result is not promised to repeat itself",
}


@dataclass(frozen=True)
class Cost:
    """What a fault cost: steps that had to be done again, and seconds where they were counted."""

    steps: int
    seconds: float | None


def clean(text: object, limit: int = 0) -> str:
    """Text that cannot garble a terminal or a page: no escape sequences, no control characters; at most ``limit``
    characters, cut in the middle."""
    plain = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _ANSI.sub("", str(text).replace("\r\n", "\n")))
    if not limit or len(plain) <= limit:
        return plain
    head = limit * 2 // 3
    return f"{plain[:head]} … {plain[head - limit :]}"


def one_line(text: object, limit: int = 160) -> str:
    """The same, on one line."""
    return clean(" ".join(clean(text).split()), limit)


def count(number: int, noun: str) -> str:
    """``1 fault``, ``2 faults``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cost(record: JobRecord, fault: FaultRecord) -> Cost | None:
    """What the fault cost; None for one handled in place and for an attempt of which nothing is known."""
    if fault.in_place:
        return None
    told = [each for each in record.lost if each.get("attempt") == fault.attempt]
    if told:
        seconds = sum(float(each.get("seconds") or 0.0) for each in told)
        return Cost(sum(int(each.get("steps") or 0) for each in told), seconds)
    ended = next((each for each in record.attempts if each.number == fault.attempt), None)
    following = next((each for each in record.attempts if each.number > fault.attempt), None)
    if ended is None or following is None:
        return None
    return Cost(max(0, ended.last_step - following.step), None)


def lost_steps(record: JobRecord) -> int:
    """Steps that were done and then lost, over all faults."""
    return sum(each.steps for fault in record.faults if (each := cost(record, fault)))


def quarantined(record: JobRecord) -> list[dict[str, Any]]:
    """The events that left records out."""
    return [event for event in record.events if event.get("name") == "quarantine"]


def changes(record: JobRecord) -> list[str]:
    """What recovery changed in the result, each once; from the attempts' settings where nothing was written down."""
    told = [one_line(change.get("text", ""), 300) for change in record.semantic_changes]
    if any(told):
        return list(dict.fromkeys(text for text in told if text))
    found = []
    for attempt in record.attempts:
        if (scale := attempt.settings.get("learning_rate_scale", 1.0)) != 1.0:
            found.append(f"learning rate scaled by {scale} from step {attempt.step}")
        if skipped := attempt.settings.get("skipped_batches"):
            found.append(f"batches left out at steps {', '.join(str(step) for step in skipped)}")
    if events := quarantined(record):
        found.append(f"records left out ({count(len(events), 'quarantine')})")
    return list(dict.fromkeys(found))


def verdict(record: JobRecord) -> Verdict:
    """Is the result still good?"""
    if record.outcome in ("running", "failed", "preempted"):
        return _without_result(record)
    reasons = tuple(changes(record))
    unpromised = _unpromised(record)
    if reasons:
        also = f" Besides, {unpromised}" if unpromised else ""
        return Verdict("changed", f"Recovery changed the result: {_shown(reasons)}.{also}", reasons)
    if unpromised:
        return Verdict("not promised", f"Nothing is called identical here: {unpromised}")
    if differing := record.stitching.differing:
        key, (step, first, again) = next((key, points[0]) for key, points in differing.items())
        text = f"{one_line(key, 60)} at step {step} was {first:.6g} and on replay {again:.6g}"
        total = count(sum(len(points) for points in differing.values()), "value")
        return Verdict(
            "changed", f"Steps that were done again did not give the same: {total} differ ({text}).", (text,)
        )
    if text := _in_pieces(record):
        return Verdict("equal within rounding", f"The same result within rounding: {text}.", (text,))
    if not record.faults and record.resumed is None:
        return Verdict("identical", "Nothing went wrong: the result is that of plain fit.")
    return Verdict(
        "identical", "Recovery changed nothing in the result: it is that of an undisturbed run, bit for bit."
    )


def _in_pieces(record: JobRecord) -> str:
    """What was computed in another order, and so rounded in another way."""
    kept = [attempt.settings for attempt in record.attempts]
    if any(settings.get("accumulation", 1) != 1 for settings in kept):
        return "batches were trained in pieces, which adds the same gradients in another order"
    if any(settings.get("validation_pieces", 1) != 1 for settings in kept):
        return "validation was done in pieces, which adds the same figures in another order"
    return ""


def _shown(reasons: tuple[str, ...]) -> str:
    more = f" and {len(reasons) - 5} more" if len(reasons) > 5 else ""
    return "; ".join(reasons[:5]) + more


def _without_result(record: JobRecord) -> Verdict:
    newest = max((int(each.get("step") or 0) for each in record.checkpoints), default=None)
    saved = "No checkpoint was made" if newest is None else f"The newest checkpoint is that of step {newest:,}"
    reasons = tuple(changes(record))
    so_far = f" Changed so far: {_shown(reasons)}." if reasons else ""
    if record.outcome == "running":
        return Verdict("running", f"Still training. {saved}.{so_far}", reasons)
    if record.outcome == "preempted":
        return Verdict("unfinished", f"Not finished; the same command goes on with it. {saved}.{so_far}", reasons)
    return Verdict("no result", f"There is no finished result. {saved}.{so_far}", reasons)


def _unpromised(record: JobRecord) -> str:
    entry = record.reproducible
    if entry is None or entry.get("value", True):
        return ""
    reason = one_line(entry.get("reason") or "", 300).rstrip(".")
    return "even an undisturbed run would not repeat itself" + (f" ({reason})." if reason else ".")


def _earlier(record: JobRecord) -> str:
    """What an earlier job did before this one went on with it."""
    if record.resumed is None or not record.resumed.get("from_step"):
        return ""
    told = next((event.get("data") or {} for event in record.events if event.get("name") == "lineage"), {})
    faults = int(float(told.get("faults") or 0))
    return f", from step {record.resumed.get('from_step')} of an earlier job ({count(faults, 'fault')} there)"


def headline(record: JobRecord) -> str:
    """Outcome, attempts and faults in one sentence, and whether the result is still good."""
    found = verdict(record)
    untouched = record.outcome == "clean" and found.word == "identical" and record.resumed is None
    judged = "" if untouched else _IN_HEADLINE.get(found.word, "")
    return _outcome(record) + (f"; {judged}" if judged else "")


def _outcome(record: JobRecord) -> str:
    tries = count(len(record.attempts), "attempt")
    faults = count(len(record.faults), "fault")
    if record.outcome == "clean":
        return f"Finished without a fault, {record.last_step:,} steps{_earlier(record)}"
    if record.outcome == "recovered":
        return f"Recovered: finished in {tries} after {faults}{_earlier(record)}"
    if record.outcome == "preempted":
        return f"Preempted at step {record.last_step:,}, in {tries}"
    if record.outcome == "failed":
        return f"Failed at step {record.last_step:,}, after {tries} and {faults}"
    return f"Running: step {record.last_step:,}, attempt {len(record.attempts)}, {faults} so far"


def final_metrics(record: JobRecord) -> dict[str, tuple[int, float]]:
    """Key -> (step, value) of the last point of each of Keras's own metrics."""
    return {
        key: (series.steps[-1], series.values[-1])
        for key, series in record.curve.items()
        if len(series) and "/" not in key
    }


def summary_lines(record: JobRecord) -> list[str]:
    """Five plain lines: outcome, faults, result, cost, last metrics. Safe to print as they are."""
    where = [f"{fault.failure_class} {fault.place}".rstrip() for fault in record.faults]
    shown = ", ".join(where[:6]) + (f" and {len(where) - 6} more" if len(where) > 6 else "")
    planned = f"; on purpose: {one_line(on_purpose(record), 100)}" if on_purpose(record) else ""
    share = goodput_words(record)
    spent = f"{count(lost_steps(record), 'step')} lost" + (f", goodput {share}" if share else "")
    last = [f"{one_line(key, 40)} {value:.4g}" for key, (_, value) in sorted(final_metrics(record).items())]
    return [
        f"{_outcome(record)} ({duration(elapsed(record))})",
        f"faults: {one_line(shown, 300) or 'none'}{planned}",
        f"result: {verdict(record).sentence}",
        f"cost: {spent}",
        f"last: {', '.join(last[:6]) or 'no metric was recorded'}",
    ]
