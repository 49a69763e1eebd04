"""The lower part of the page as plain values: time, checkpoints, models, quarantine, events."""

from __future__ import annotations

import json
from typing import Any

from mlflow_resilience import summary, time_use
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.spool.restarts import PARTS
from mlflow_resilience.summary import clean, one_line

_MOST_RESTARTS = 40
_CALLED = {"restore": "restore, first batch", "trace": "first step"}  # parts of which the word does not say it all
Row = dict[str, Any]


def size(count: Any) -> str:
    """``1.4 MB``."""
    try:
        value = float(count)
    except (TypeError, ValueError):
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000 or unit == "GB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return ""


def times(record: JobRecord) -> list[Row]:
    """Where the time went, with each part's share."""
    parts = summary.time_parts(record)
    total = sum(parts.values()) or 1.0
    return [
        {"key": key, "name": time_use.part_name(record, key), "seconds": parts[key], "share": 100 * parts[key] / total}
        for key in time_use.TIMES
        if key in parts
    ]


def restarts(record: JobRecord) -> Row:
    """From one process's end to the next one's first step: the parts that came, and a row each."""
    shown = [each for each in record.restarts.all if each.done or each.lost_again is not None]
    parts = [part for part in PARTS if any(part in each.parts for each in shown)]
    rows = [
        {
            "what": f"attempt {each.attempt} to the next" if each.attempt else "first start",
            "parts": [each.parts.get(part) for part in parts],
            "total": each.seconds,
            "done": each.done,
        }
        for each in shown[-_MOST_RESTARTS:]
    ]
    called = [_CALLED.get(part, part) for part in parts]
    return {"parts": called, "rows": rows, "left_out": max(0, len(shown) - _MOST_RESTARTS)}


def checkpoints(record: JobRecord) -> Row:
    """The newest ten, and how many there were."""
    newest = sorted(record.checkpoints, key=lambda each: each.get("step") or 0, reverse=True)
    rows = [
        {
            "step": each.get("step"),
            "place": _place(each),
            "attempt": each.get("attempt"),
            "bytes": each.get("bytes"),
            "stall": each.get("stall_ms"),
            "digest": one_line(each.get("digest") or "", 80),
        }
        for each in newest[:10]
    ]
    return {"rows": rows, "count": len(newest)}


def _place(checkpoint: Row) -> str:
    """Epochs as Keras's display counts them, from 1; what is kept counts those that are done."""
    done, within = checkpoint.get("epoch"), checkpoint.get("step_in_epoch")
    if not isinstance(done, int):
        return ""
    return f"after epoch {done}" if within == 0 and done else f"in epoch {done + 1}"


def models(record: JobRecord) -> list[Row]:
    """Logged models that were not superseded, newest first."""
    kept = [each for each in record.models if str(each.get("local_id")) not in record.superseded]
    return [
        {"name": one_line(each.get("name") or "", 60), "step": each.get("step"), "epoch": each.get("epoch")}
        for each in reversed(kept[-10:])
    ]


def quarantined(record: JobRecord) -> Row:
    """Records that were left out, one line each."""
    lines = [
        {"step": event.get("step"), "text": one_line(event.get("text") or "", 300), "data": _compact(event.get("data"))}
        for event in summary.quarantined(record)
    ]
    return {"rows": lines[:30], "left_out": max(0, len(lines) - 30)}


def events(record: JobRecord) -> list[Row]:
    """The last of all other events, in order."""
    others = [event for event in record.events if event.get("name") != "quarantine"]
    return [
        {"time": event.get("time"), "name": one_line(event.get("name") or "", 60), "step": event.get("step"),
         "text": one_line(event.get("text") or _compact(event.get("data")), 300)}
        for event in others[-50:]
    ]  # fmt: skip


def _compact(data: Any) -> str:
    if not data:
        return ""
    return clean(json.dumps(data, ensure_ascii=False, default=str), 400)
