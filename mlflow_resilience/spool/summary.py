"""A job in words: the lines that tags, the description, the report and the terminal share."""

from __future__ import annotations

from mlflow_resilience.spool.record import AttemptRecord, FaultRecord, JobRecord


def fault_line(fault: FaultRecord) -> str:
    """What and where: ``host_oom (ResourceExhaustedError) in step 100 (epoch 3)``."""
    parts = [f"{fault.failure_class} ({fault.fault.get('exception', 'unknown')})", fault.place]
    if not fault.where:
        position, phase = fault.fault.get("position") or {}, fault.fault.get("phase", "unknown")
        parts[1] += f", epoch {position.get('epoch', 0)}" if parts[1] else ""
        parts += [f"in {phase}"] if phase != "unknown" else []
    return " ".join(part for part in parts if part)


def decision_line(fault: FaultRecord) -> str:
    """What is done about it and why; empty while nothing is decided."""
    decision = fault.decision
    if decision is None:
        return ""
    actions = ", ".join(decision.get("actions") or ["none"])
    text = str(decision.get("text") or f"{decision.get('verdict', 'stop')}: {actions}")
    basis = str(decision.get("basis") or "")
    return text if not basis or basis in text else f"{text} (basis: {basis})"


def attempt_line(attempt: AttemptRecord) -> str:
    """The value of ``resilience.attempt.N``: failure class, where, decision, basis."""
    fault = attempt.fault
    if fault is not None:
        line, decided = fault_line(fault), decision_line(fault)
        return decided if decided.startswith(line) else "; ".join(part for part in (line, decided) if part)
    ends = {"FINISHED": "finished", "KILLED": "preempted", "FAILED": "failed", None: "running"}
    return f"{ends.get(attempt.status, attempt.status)}, from step {attempt.step} to step {attempt.last_step}"


def description_markdown(record: JobRecord, result: str = "") -> str:
    """A few lines of Markdown: what happened. ``result`` says whether the result is still good, where it is given; it
    names what changed too."""
    counts = f"attempts: {len(record.attempts)}, faults: {len(record.faults)}, last step: {record.last_step}"
    lines = [f"**{record.outcome}** · {counts}"]
    if result:
        lines += ["", f"Result: {result}"]
    if record.text:
        lines += ["", record.text]
    hint = record.faults[-1].hint if record.faults and record.outcome == "failed" else ""
    if hint:
        lines += ["", f"Hint: {hint}"]
    if record.resumed is not None:
        lines += ["", str(record.resumed.get("text") or f"resumed from step {record.resumed.get('from_step')}")]
    lines += ["", *(f"{each.number}. {attempt_line(each)}" for each in record.attempts[-20:])]
    in_place = [fault for fault in record.faults if fault.in_place]
    if in_place:
        classes = ", ".join(dict.fromkeys(fault.failure_class for fault in in_place))
        lines += ["", f"Handled in place: {len(in_place)} ({classes})"]
        lines += ["", *(f"- {decision_line(each) or fault_line(each)}" for each in in_place[-5:])]
    if record.semantic_changes and not result:
        lines += ["", "Changed in the result: " + semantic_changes_line(record)]
    if record.reproducible is not None and not record.reproducible.get("value", True) and not result:
        lines += ["", f"Not reproducible: {record.reproducible.get('reason', '')}"]
    return "\n".join(lines)


def semantic_changes_line(record: JobRecord) -> str:
    """What recovery changed in the result, in order, each once."""
    texts = (f"{change.get('text', '')}" for change in record.semantic_changes)
    return "; ".join(dict.fromkeys(text for text in texts if text))
