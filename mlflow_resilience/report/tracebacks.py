"""Whole tracebacks, each text once, within what the page can hold."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

from mlflow_resilience.spool.record import FaultRecord, JobRecord
from mlflow_resilience.summary import clean

_MOST = 60
_LONGEST = 60_000


@dataclass
class Traceback:
    """One text and the faults that gave it; ``text`` is empty where the page had no more room."""

    text: str
    chain: list[str]
    faults: list[FaultRecord] = field(default_factory=list)


def collect(record: JobRecord, room: int) -> tuple[list[Traceback], int]:
    """In order of first occurrence; identical ones are one, and counted. Also how many are left out.

    ``room`` is how many characters, as they stand in the page, all of them may take.
    """
    found: dict[str, Traceback] = {}
    for fault in record.faults:
        text = str(fault.fault.get("traceback") or "") or str(fault.fault.get("output_tail") or "")
        if text.strip():
            found.setdefault(text, Traceback(text, _chain(fault))).faults.append(fault)
    shown = list(found.values())[:_MOST]
    for each in shown:
        text = clean(each.text, _LONGEST) if room > 0 else ""
        needed = len(html.escape(text))
        each.text = text if needed <= room else ""
        room -= needed if each.text else 0
    return shown, len(found) - len(shown)


def _chain(fault: FaultRecord) -> list[str]:
    """The causes, outermost first, one line each."""
    links = [each for each in fault.fault.get("chain") or () if isinstance(each, dict)]
    return [f"{clean(each.get('exception', ''), 100)}: {clean(each.get('message', ''), 400)}" for each in links[:20]]
