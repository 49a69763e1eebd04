"""Faults as the page shows them: plain values, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_resilience import summary
from mlflow_resilience.spool.record import FaultRecord, JobRecord
from mlflow_resilience.spool.summary import decision_line, fault_line
from mlflow_resilience.summary import clean, one_line

_MOST_ROWS = 100
_BECAUSE = ", because "  # a text that has it tells its basis itself
Row = dict[str, Any]


def table(record: JobRecord) -> Row:
    """Rows of the table; those that repeat one another within an attempt are one, and counted."""
    rows: dict[tuple[Any, ...], Row] = {}
    for fault in record.faults:
        facts = fault.fault
        alike = (fault.failure_class, facts.get("exception"), facts.get("message"), decision_line(fault))
        key = (*alike, fault.attempt) if fault.in_place else (fault.number, id(fault))
        shown = rows.setdefault(key, row(record, fault) | {"times": 0})
        shown["times"] += 1
    listed = list(rows.values())
    return {"rows": listed[:_MOST_ROWS], "left_out": max(0, len(listed) - _MOST_ROWS)}


def row(record: JobRecord, fault: FaultRecord) -> Row:
    """One fault, its decision and its cost."""
    facts, decision = fault.fault, fault.decision or {}
    position = facts.get("position") if isinstance(facts.get("position"), dict) else {}
    price = summary.cost(record, fault)
    return {
        "number": fault.number,
        "attempt": fault.attempt,
        "class": one_line(fault.failure_class, 60),
        "domain": one_line(fault.failure_domain, 40),
        "exception": one_line(facts.get("exception") or "", 80),
        "message": clean(facts.get("message") or "", 500).strip(),
        "step": fault.step,
        "epoch": epoch + 1 if isinstance(epoch := (position or {}).get("epoch"), int) else None,
        "phase": one_line(facts.get("phase") or "", 20),
        "in_place": fault.in_place,
        "simulated": bool(facts.get("simulated")),
        "hint": one_line(fault.hint, 300),
        "verdict": one_line(decision.get("verdict") or "none", 20),
        "told": bool(fault.where),  # epoch and phase too
        "where": one_line(fault.place, 120),
        "decision": one_line(decided(fault), 300),
        "actions": one_line(", ".join(str(action) for action in decision.get("actions") or ()), 200),
        "basis": "" if _BECAUSE in str(decision.get("text")) else _basis(decision),
        "time": fault.time,
        "cost": _price(price) if price else "handled in place" if fault.in_place else "",
    }


def decided(fault: FaultRecord) -> str:
    """What was decided, without the fault's own name before it, which stands beside it on the page."""
    text = str((fault.decision or {}).get("text") or "")
    return text.removeprefix(f"{fault_line(fault)}: ")


def _basis(decision: Mapping[str, Any]) -> str:
    return one_line(decision.get("basis") or "", 100).replace("_", " ")


def _price(price: summary.Cost) -> str:
    steps = summary.count(price.steps, "step")
    return steps if price.seconds is None else f"{steps}, {summary.duration(price.seconds)}"
