"""The artifacts that are rendered from the record: events, attempts, exceptions, quarantine."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from mlflow_resilience.core.redaction import redact
from mlflow_resilience.spool.codec import FORMAT, Entry
from mlflow_resilience.spool.record import FaultRecord, JobRecord
from mlflow_resilience.spool.summary import decision_line, fault_line

FOLDER = "resilience"
NOT_EVENTS = frozenset({"points", "gauges", "carried", "ask"})
COLUMNS = (
    "attempt", "status", "from_step", "to_step", "seconds", "failure_class", "failure_domain", "exception", "message",
    "decision", "basis", "handled_in_place", "settings",
)  # fmt: skip


def strict(value: Any) -> Any:
    """The value in strict JSON: what is not finite becomes its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): strict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [strict(each) for each in value]
    return value


def event_line(entry: Entry) -> str | None:
    """One line of ``events.jsonl``; None for entries that are no events."""
    if entry.get("kind") in NOT_EVENTS:
        return None
    return json.dumps(_redacted(strict({"format": FORMAT, **entry})), ensure_ascii=False)


def _redacted(value: Any) -> Any:
    """Without the secrets that a command line or a tracking URI may hold."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _redacted(item) for key, item in value.items()}
    return [_redacted(item) for item in value] if isinstance(value, list | tuple) else value


def quarantine_line(entry: Entry) -> str | None:
    """One line of ``quarantine.jsonl``; None for other entries."""
    if entry.get("kind") != "event" or entry.get("name") != "quarantine":
        return None
    return event_line(entry)


def quarantined_records(entry: Entry) -> int:
    """How many records a quarantine event takes out."""
    data = entry.get("data") or {}
    records = data.get("records", data.get("count", 1))
    return len(records) if isinstance(records, list) else int(records or 0)


def attempts_table(record: JobRecord) -> str:
    """``attempts.json``, in the form of ``MlflowClient.log_table``."""
    rows = []
    for attempt in record.attempts:
        fault = attempt.fault
        facts = fault.fault if fault else {}
        decision = (fault.decision if fault else None) or {}
        end = attempt.ended or record.ended or record.last_time
        rows.append([
            attempt.number, attempt.status or "RUNNING", attempt.step, attempt.last_step,
            round(max(end - attempt.started, 0.0), 3), fault.failure_class if fault else None,
            fault.failure_domain if fault else None, facts.get("exception"), facts.get("message"),
            decision_line(fault) if fault else None, decision.get("basis"),
            sum(each.in_place for each in attempt.faults), json.dumps(strict(attempt.settings)),
        ])  # fmt: skip
    return json.dumps({"columns": COLUMNS, "data": strict(rows)}, ensure_ascii=False)


def exception_file(record: JobRecord, fault: FaultRecord) -> tuple[str, str]:
    """Text and artifact path of a fault's file. A fault handled in place that was seen before is counted in the
    file of its first."""
    alike = [each for each in record.faults if _identity(each) == _identity(fault)]
    if not fault.in_place:
        seen = alike.index(fault) + 1
        return exception_text(fault, seen, alike[0]), f"{FOLDER}/exceptions/attempt-{fault.attempt:03d}.txt"
    first = next(each for each in alike if each.in_place)
    name = f"attempt-{first.attempt:03d}-fault-{first.number:02d}.txt"
    return exception_text(first, len(alike), first), f"{FOLDER}/exceptions/{name}"


def exception_text(fault: FaultRecord, seen: int, first: FaultRecord) -> str:
    """The whole of a fault: what, the traceback, the cause chain, the memory snapshot."""
    facts = fault.fault
    lines = [fault_line(fault), f"failure domain: {fault.failure_domain}"]
    if seen > 1:
        lines.append(f"seen {seen} times; first in attempt {first.attempt}, fault {first.number}")
    if fault.hint:
        lines.append(f"hint: {fault.hint}")
    lines += ["", f"{facts.get('exception', 'unknown')}: {facts.get('message', '')}"]
    if facts.get("traceback"):
        lines += ["", "Traceback", str(facts["traceback"]).rstrip()]
    if facts.get("chain"):
        lines += ["", "Causes, outermost first"]
        lines += [f"  {each.get('exception')}: {each.get('message')}" for each in facts["chain"]]
    if facts.get("output_tail"):
        lines += ["", "Last output", str(facts["output_tail"]).rstrip()]
    if fault.memory:
        lines += ["", "Memory", json.dumps(strict(fault.memory), indent=2, ensure_ascii=False)]
    shown = {"traceback", "chain", "output_tail", "message", "exception"}
    rest = {key: value for key, value in facts.items() if key not in shown and value not in (None, "", [], ())}
    lines += ["", "Facts", json.dumps(strict(rest), indent=2, ensure_ascii=False)]
    return "\n".join(lines) + "\n"


def _identity(fault: FaultRecord) -> str:
    parts = (fault.fault.get("exception"), fault.fault.get("message"), fault.fault.get("traceback"))
    return hashlib.sha256(repr(parts).encode()).hexdigest()
