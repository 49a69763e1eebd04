"""What is left of a cell, read from the journals of its jobs: plain values, the same in a file of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from mlflow_resilience import summary
from mlflow_resilience.drill.going_back import Loss, losses
from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.folder import jobs
from mlflow_resilience.spool.journal import read
from mlflow_resilience.spool.record import JobRecord

Curves = dict[str, list[tuple[int, float]]]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One job, over all its starts. What nobody recorded is empty."""

    codes: tuple[int, ...] = ()
    late: bool = False  # it had to be ended
    seconds: float = 0.0
    outcomes: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()  # the bases of decisions to stop
    classes: tuple[str, ...] = ()
    digest: str = ""  # of the finished model and its optimiser
    curves: Curves = field(default_factory=dict)  # Keras's own metrics, a point an epoch
    changes: tuple[str, ...] = ()  # in the result, as the job itself declares them
    struck: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    left: tuple[str, ...] = ()  # processes
    running: tuple[str, ...] = ()  # runs in MLflow
    models: int = 0  # checkpoints that became logged models
    checkpoints: int = 0
    resume_key: str = ""
    start_seconds: float = 0.0  # to the first step
    step_seconds: float = 0.0  # on the average, all that comes between steps included
    tail: str = ""  # of the output

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`, after a journey through JSON."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        made: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in known.items()
        }
        made["losses"] = tuple(Loss(**each) for each in known.get("losses", ()))
        made["curves"] = {
            key: [(int(step), float(value)) for step, value in points] for key, points in made["curves"].items()
        }
        return cls(**made)

    @property
    def epoch_ends(self) -> list[int]:
        """The global steps at which epochs ended."""
        return sorted({step for points in self.curves.values() for step, _ in points})


def of_journals(home: Path) -> dict[str, Any]:
    """The fields of Facts that the journals below a home tell."""
    journals = [[entry for entry, _ in read(job.journal)] for job in reversed(jobs(home))]
    records = [_record(entries) for entries in journals]
    last = records[-1] if records else JobRecord()
    decisions = [fault.decision or {} for record in records for fault in record.faults]
    return {
        "outcomes": tuple(record.outcome for record in records),
        "stops": tuple(str(each.get("basis")) for each in decisions if each.get("verdict") == "stop"),
        "classes": tuple(fault.failure_class for record in records for fault in record.faults),
        "digest": next((str(each.get("digest")) for each in reversed(last.models) if each.get("name") == "model"), ""),
        "curves": {
            key: [(step, value) for step, value, _ in series] for key, series in last.curve.items() if "/" not in key
        },
        "changes": declared(last),
        "struck": tuple(_planned(entry) for record in records for entry in record.events if _planned(entry)),
        "losses": losses(entry for entries in journals for entry in entries),
        "models": sum(each.get("name") == "checkpoint" for record in records for each in record.models),
        "checkpoints": sum(len(record.checkpoints) for record in records),
        "resume_key": str(last.tags.get("resilience.resume_key") or ""),
        "start_seconds": max((each.seconds for record in records for each in record.restarts.all), default=0.0),
        "step_seconds": _step_seconds(last),
    }


def declared(record: JobRecord) -> tuple[str, ...]:
    """What the job says that its result owes to recovery, or cannot promise: nothing when it claims to be identical."""
    told = summary.verdict(record)
    if told.word in ("identical", "running", "unfinished", "no result"):
        return told.reasons
    return told.reasons or (told.sentence,)


def newest_checkpoint(home: Path) -> Path | None:
    """The tensors of the last checkpoint of the last job."""
    found = [path for job in jobs(home)[:1] for path in job.checkpoints.glob("step-*/state.safetensors")]
    return max(found, default=None)


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a file of output."""
    try:
        return "\n".join(summary.clean(path.read_text(errors="replace")).splitlines()[-lines:])
    except OSError:
        return ""


def _record(entries: Iterable[Entry]) -> JobRecord:
    record = JobRecord()
    for entry in entries:
        record.add(entry)
    return record


def _step_seconds(record: JobRecord) -> float:
    """Of the last attempt, from the first step of its process on."""
    begun = [each.at["stepped"] for each in record.restarts.all if each.done]
    last = record.attempts[-1] if record.attempts else None
    if not begun or last is None or last.ended is None or last.last_step <= last.step + 1:
        return 0.0
    return max(0.0, last.ended - max(begun[-1], last.started)) / (last.last_step - last.step)


def _planned(entry: Entry) -> str:
    data = entry.get("data") if entry.get("name") == "fault_on_purpose" else None
    return str(data.get("fault") or "") if isinstance(data, dict) else ""


def as_sequence(values: Sequence[str], most: int = 3) -> str:
    """Some of them, and how many more there are."""
    shown = "; ".join(summary.one_line(value, 120) for value in values[:most])
    return shown + (f"; and {len(values) - most} more" if len(values) > most else "")
