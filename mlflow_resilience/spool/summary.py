"""A job in words: the lines that tags, the description, the report and the terminal share."""

from __future__ import annotations

from collections import Counter

from mlflow_resilience.spool.record import AttemptRecord, FaultRecord, JobRecord

_ENDS = {"FINISHED": "finished", "KILLED": "preempted", "FAILED": "failed", None: "running"}
_MESSAGE = 400  # characters of an exception's message in a run's description


def fault_line(fault: FaultRecord) -> str:
    """What and where: ``host_oom (ResourceExhaustedError) in step 100 (epoch 3)``."""
    parts = [f"{fault.failure_class} ({fault.fault.get('exception', 'unknown')})", fault.place]
    if not fault.where:
        position, phase = fault.fault.get("position") or {}, fault.fault.get("phase", "unknown")
        epoch = position.get("epoch", 0)
        parts[1] += f", epoch {epoch + 1}" if parts[1] and isinstance(epoch, int) else ""
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
    return f"{attempt_state(attempt)}, from step {attempt.step} to step {attempt.last_step}"


def attempt_state(attempt: AttemptRecord) -> str:
    """``finished``, ``failed``, ``preempted`` or ``running``; ``continued`` where training went on with other settings
    though nothing had gone wrong."""
    if attempt.status == "FINISHED" and attempt.followed:
        return "continued"
    return _ENDS.get(attempt.status, "failed")


def on_purpose(record: JobRecord) -> str:
    """The faults that the job was told to suffer (``fault=``, or a test), as they struck: ``kill@70, oom@60 twice``."""
    struck = [event for event in record.events if event.get("name") == "fault_on_purpose"]
    told = Counter(str((event.get("data") or {}).get("fault") or "unknown") for event in struck)
    return ", ".join(name if times == 1 else f"{name} ({times} times)" for name, times in told.items())


def cause_line(fault: FaultRecord) -> str:
    """The exception's name and the beginning of its message, on one line."""
    name, message = str(fault.fault.get("exception") or "unknown"), str(fault.fault.get("message") or "")
    line = " ".join(f"{name}: {message}".split()) if message else name
    return line if len(line) <= _MESSAGE else f"{line[:_MESSAGE]} …"


def description_markdown(record: JobRecord, result: str = "") -> str:
    """A few lines of Markdown: what happened. ``result`` says whether the result is still good, where it is given; it
    names what changed too."""
    counts = f"attempts: {len(record.attempts)}, faults: {len(record.faults)}, last step: {record.last_step}"
    lines = [f"**{record.outcome}** · {counts}"]
    if result:
        lines += ["", f"Result: {result}"]
    told = [attempt_line(each) for each in record.attempts]
    if record.text and not any(record.text in line for line in told):
        lines += ["", record.text]
    if record.faults and record.outcome == "failed":
        lines += ["", f"`{cause_line(record.faults[-1]).replace('`', chr(39))}`"]
    hint = record.faults[-1].hint if record.faults and record.outcome == "failed" else ""
    if hint:
        lines += ["", f"Hint: {hint}"]
    if record.resumed is not None:
        lines += ["", str(record.resumed.get("text") or f"resumed from step {record.resumed.get('from_step')}")]
    if planned := on_purpose(record):
        lines += ["", f"Faults on purpose: {planned}"]
    lines += ["", *(f"{each.number}. {line}" for each, line in list(zip(record.attempts, told, strict=True))[-20:])]
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
