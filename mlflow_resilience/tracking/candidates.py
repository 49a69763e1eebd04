"""An earlier job that might be gone on with, whether it is known from its folder or from MLflow alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlflow_resilience.spool.curve import Point
from mlflow_resilience.spool.folder import JobFolder

GOOD = ("clean", "recovered")


@dataclass(frozen=True)
class Question:
    """What a new job asks before it trains."""

    resume: str = "auto"  # auto, never, or a run's or job's id
    resume_key: str = ""
    epochs: float = 0
    recover: str = "true"
    fault: str = ""
    experiment: str | None = None
    experiment_id: str | None = None
    own_job: str = ""
    own_run: str | None = None

    @classmethod
    def of(cls, ask: Mapping[str, Any], job: Mapping[str, Any], own_job: str, own_run: str | None) -> Question:
        """From the ``ask`` entry; what it leaves out comes from the ``job`` entry."""
        params = job.get("params") or {}
        return cls(
            resume=str(ask.get("resume") or "auto"),
            resume_key=str(ask.get("resume_key") or ""),
            epochs=number(ask.get("epochs", params.get("epochs"))),
            recover=flag(ask.get("recover", params.get("recover", "true"))),
            fault=str(ask.get("fault", params.get("fault", "")) or ""),
            experiment=ask.get("experiment") or job.get("experiment"),
            experiment_id=ask.get("experiment_id") or job.get("experiment_id"),
            own_job=own_job,
            own_run=own_run,
        )


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """``step`` is None where there is no checkpoint to go on from. ``source`` is what it was itself resumed from."""

    job_id: str | None
    run_id: str | None
    resume_key: str
    outcome: str
    alive: bool
    epochs: float
    recover: str = "true"
    fault: str = ""
    host: str = ""
    pid: int | None = None
    folder: JobFolder | None = None
    step: int | None = None
    model_id: str | None = None
    source: tuple[str | None, str | None] = (None, None)  # job id, run id
    params: dict[str, Any] = field(default_factory=dict)
    lineage: dict[str, float] = field(default_factory=dict)
    curve: list[Point] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        return self.outcome in GOOD

    @property
    def name(self) -> str:
        """How a line names it."""
        return f"run {self.run_id}" if self.run_id else f"job {self.job_id}"

    def matches(self, question: Question) -> bool:
        """Whether ``auto`` may go on with it at all."""
        return (
            self.job_id != question.own_job
            and question.resume_key != ""
            and self.resume_key == question.resume_key
            and self.recover == question.recover == "true"
            and self.fault == question.fault
        )


def number(value: Any) -> float:
    """A count that may have come as text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def flag(value: Any) -> str:
    """``true`` or ``false``, whichever way it was written."""
    return "false" if str(value).strip().lower() in ("false", "0", "no", "off") else "true"
