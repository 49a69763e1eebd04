"""What is to be done in MLflow, as values, on symbolic runs: ``"job"`` or an attempt's number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.curve import Point

RunKey = Literal["job"] | int
Status = Literal["FINISHED", "FAILED", "KILLED"]


@dataclass(frozen=True)
class OpenRun:
    """Adopt ``run_id`` or make a run; attempts are children of the job's run."""

    run: RunKey
    local_id: str
    name: str | None
    started_ms: int
    tags: dict[str, str] = field(default_factory=dict)
    run_id: str | None = None
    experiment: str | None = None
    experiment_id: str | None = None
    reopen: bool = True  # one that was ended meanwhile


@dataclass(frozen=True)
class LogMetrics:
    """Points with their original times. ``clock`` marks those whose step is seconds since the job began."""

    run: RunKey
    points: list[Point]
    clock: bool = False


@dataclass(frozen=True)
class LogParams:
    """Params of a run."""

    run: RunKey
    params: dict[str, Any]


@dataclass(frozen=True)
class SetTags:
    """Tags of a run."""

    run: RunKey
    tags: dict[str, Any]


@dataclass(frozen=True)
class EndRun:
    """The run's true end."""

    run: RunKey
    status: Status
    ended_ms: int


@dataclass(frozen=True)
class EndScriptRun:
    """A run that a script of the job had opened itself, and whose process is gone: ended if nobody has ended it."""

    run_id: str
    tracking_uri: str
    status: Status


@dataclass(frozen=True)
class SendFile:
    """A file that waits on disk becomes an artifact; ``table``: one that MLflow shows as a table."""

    run: RunKey
    path: str
    folder: str
    table: bool = False


@dataclass(frozen=True)
class SendText:
    """A text becomes an artifact."""

    run: RunKey
    text: str
    path: str


@dataclass(frozen=True)
class LogModel:
    """A folder that waits on disk becomes a LoggedModel; its metrics are linked through ``metrics_run``."""

    entry: Entry
    local_id: str
    metrics: list[Point]
    metrics_run: RunKey


@dataclass(frozen=True)
class DropModel:
    """A superseded LoggedModel goes, unless somebody has a use for it."""

    local_id: str


@dataclass(frozen=True)
class Say:
    """An event that is found out here and belongs into the journal, once."""

    name: str
    text: str
    attempt: int
    data: dict[str, Any]


@dataclass(frozen=True)
class Documents:
    """The last version of all that is rendered from the whole record."""


Operation = (
    OpenRun
    | LogMetrics
    | LogParams
    | SetTags
    | EndRun
    | EndScriptRun
    | SendFile
    | SendText
    | LogModel
    | DropModel
    | Say
    | Documents
)
