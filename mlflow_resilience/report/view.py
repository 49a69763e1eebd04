"""The upper part of the page as plain values: figures, answers, timeline. Escaping is the template's."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from mlflow_resilience import summary
from mlflow_resilience.report.faults import decided, row
from mlflow_resilience.spool.record import AttemptRecord, FaultRecord, JobRecord
from mlflow_resilience.spool.summary import attempt_state
from mlflow_resilience.summary import one_line

MOST_ATTEMPTS = 80

#: TensorFlow's names for its own parts, which tell a user nothing.
_INNER = re.compile(r"Graph execution error:|\{\{[^{}]*\}\}|\[\[[^\[\]]*\]\]|\[Op:[^\[\]]*\]")
#: Where in the graph, with a stack that begins at the interpreter; what went wrong comes after it.
_NODE = re.compile(
    r'Detected at node \S+ defined at \(most recent call last\):(?:\s*(?:File ".*|<stack traces unavailable>))*'
)
Row = dict[str, Any]


def title(record: JobRecord) -> str:
    """The name that the user knows the job by."""
    job = record.job
    return one_line(job.get("run_name") or job.get("experiment") or record.job_id or "job", 80)


def moment(seconds: float | None) -> str:
    """``2027-01-15 08:00:21 UTC``."""
    try:
        return datetime.fromtimestamp(float(seconds or 0.0), UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if seconds else ""
    except (ValueError, OverflowError, OSError):
        return ""


def facts(record: JobRecord) -> list[Row]:
    """The figures under the headline."""
    share = summary.goodput(record)
    lost = summary.lost_steps(record)
    good = {
        "name": "goodput",
        "value": f"{share:.0%}" if share is not None else "not measured",
        "note": summary.goodput_words(record).partition(", ")[2],
    }
    found = [
        {"name": "attempts", "value": f"{len(record.attempts):,}"},
        {"name": "faults", "value": f"{len(record.faults):,}"},
        {"name": "steps", "value": f"{record.last_step:,}", "note": f"{lost:,} lost" if lost else ""},
        {"name": "time", "value": summary.duration(summary.elapsed(record))},
    ]
    metrics = summary.final_metrics(record)
    shown = sorted(metrics, key=lambda key: (not key.startswith("val_"), key))[:2]
    found += [{"name": one_line(key, 40), "value": f"{metrics[key][1]:.4g}"} for key in shown]
    return [*found, good]


def answers(record: JobRecord) -> Row:
    """What went wrong and what was done, in a few lines each; of a job that failed, what can be done next."""
    classes: dict[str, list[FaultRecord]] = {}
    for fault in record.faults:
        classes.setdefault(fault.failure_class, []).append(fault)
    wrong = [{"name": name, "text": _places(faults), "why": _why(faults[0])} for name, faults in classes.items()]
    done: dict[str, list[str]] = {}
    for fault in record.faults:
        text = one_line(decided(fault) or "nothing was decided", 160)
        done.setdefault(text, []).append(fault.failure_class)
    told = [{"text": text, "for": _counted(classes)} for text, classes in done.items()]
    hint = record.faults[-1].hint if record.faults and record.outcome == "failed" else ""
    return {"wrong": wrong, "done": told, "hint": one_line(hint, 300)}


def _why(fault: FaultRecord) -> str:
    """The root cause in one line, as far as the exception tells it."""
    chain = [link for link in fault.fault.get("chain") or () if isinstance(link, dict) and link.get("message")]
    cause = chain[-1] if chain else fault.fault
    message = one_line(_INNER.sub("", _NODE.sub("", str(cause.get("message") or ""))), 1000)
    exception = one_line(cause.get("exception") or "", 60)
    return one_line(f"{exception}: {message}" if message and exception not in message else message or exception, 140)


def _counted(names: list[str]) -> str:
    """``bad_data 3 times, unknown``."""
    once = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(one_line(name, 60) + (f" {times} times" if times > 1 else "") for name, times in once.items())


_IN_STEP = ("data", "step", "trace")


def _places(faults: list[FaultRecord]) -> str:
    if len(faults) == 1:
        return one_line(faults[0].place, 120)
    # A fault in a step is of the one that was being done, which comes after those that were.
    steps = [f"{fault.step + (fault.phase in _IN_STEP):,}" for fault in faults if fault.step is not None]
    if not steps:
        return f"{len(faults)} times" if len(faults) > 1 else ""
    shown = ", ".join(steps[:5]) + (f" and {len(steps) - 5} more" if len(steps) > 5 else "")
    return f"at step {shown}"


def attempts(record: JobRecord) -> list[Row]:
    """The timeline: each attempt with what changed, its faults and what came of it."""
    shown = record.attempts
    if len(shown) > MOST_ATTEMPTS:  # the first and the last tell most
        shown = [*shown[: MOST_ATTEMPTS // 2], *shown[-MOST_ATTEMPTS // 2 :]]
    before = {attempt.number: previous for previous, attempt in zip(record.attempts, record.attempts[1:], strict=False)}
    whole = max(1, record.last_step)
    return [
        {
            "number": attempt.number,
            "state": attempt_state(attempt),
            "first": attempt.step,
            "last": attempt.last_step,
            "left": round(100 * attempt.step / whole, 2),
            "width": round(max(0.6, 100 * (attempt.last_step - attempt.step) / whole), 2),
            "seconds": max(0.0, (attempt.ended or record.last_time) - attempt.started) if attempt.started else None,
            "reason": one_line(attempt.reason, 200),
            "changed": _changed(attempt, before.get(attempt.number)),
            "faults": [row(record, fault) for fault in attempt.faults[-20:]],
            "more": max(0, len(attempt.faults) - 20),
        }
        for attempt in shown
    ]


def _changed(attempt: AttemptRecord, before: AttemptRecord | None) -> list[str]:
    """The settings that are not as they were in the attempt before."""
    old = before.settings if before else {}
    return [
        f"{one_line(key, 60).replace('_', ' ')}: {_setting(old.get(key, 'unset'))} → {_setting(value)}"
        for key, value in attempt.settings.items()
        if before and old.get(key) != value
    ]


def _setting(value: Any) -> str:
    if isinstance(value, list | tuple):
        return one_line(", ".join(str(each) for each in value) or "none", 60)
    return one_line({True: "yes", False: "no"}[value] if isinstance(value, bool) else value, 60)
