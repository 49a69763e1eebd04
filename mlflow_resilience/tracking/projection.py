"""From journal entries to MLflow operations: pure, so that a sender that starts again arrives at the same ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from mlflow_resilience import forensics
from mlflow_resilience.spool.codec import Entry
from mlflow_resilience.spool.curve import Point
from mlflow_resilience.spool.record import AttemptRecord, JobRecord, points_of
from mlflow_resilience.spool.summary import attempt_line
from mlflow_resilience.tracking import documents, job_tags
from mlflow_resilience.tracking.operations import (
    Documents,
    DropModel,
    EndRun,
    EndScriptRun,
    LogMetrics,
    LogModel,
    LogParams,
    OpenRun,
    Operation,
    RunKey,
    Say,
    SendFile,
    SendText,
    SetTags,
    Status,
)

JOB_STATUS: dict[str, Status] = {"clean": "FINISHED", "recovered": "FINISHED", "preempted": "KILLED"}
CLOCK_PREFIX = "memory/"


def milliseconds(entry: Entry) -> int:
    """The entry's time in MLflow's unit."""
    return int(float(entry.get("time") or 0.0) * 1000)


class Projection:
    """Folds a journal and says, entry by entry, what is to be done. ``environment`` goes onto the job run as tags."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self.record = JobRecord()
        self._environment = environment or {}
        self._early: list[Operation] = []  # what comes before the job's own entry waits for it
        self._opened = False
        self._open_attempts: set[int] = set()
        self._gauges_sent: set[tuple[str, int]] = set()
        self._quarantined = 0
        self._said: dict[str, int] = {}
        self._script_runs: dict[str, Entry] = {}  # that scripts of the job opened; some may be open still

    def add(self, entry: Entry) -> list[Operation]:
        """Take in the next entry; returns what follows from it, in order."""
        before = [attempt.number for attempt in self.record.attempts]
        self.record.add(entry)
        handler = self._handlers.get(str(entry.get("kind")))
        operations = handler(self, entry) if handler else []
        if entry.get("kind") != "attempt":
            operations = self._implied_attempts(before, entry) + operations
        if self._opened:
            ready, self._early = self._early + operations, []
            return ready
        self._early += operations
        return []

    def _implied_attempts(self, before: list[int], entry: Entry) -> list[Operation]:
        """An attempt whose first word was lost still gets its run."""
        new = [attempt for attempt in self.record.attempts if attempt.number not in before]
        return [operation for attempt in new for operation in self._open_attempt(attempt, milliseconds(entry))]

    def _on_job(self, entry: Entry) -> list[Operation]:
        if self._opened:
            return self._on_params(entry) + self._on_tags(entry)
        self._opened = True
        record = self.record
        callers = bool(entry.get("caller_owns_end"))
        opening = OpenRun(
            run="job",
            local_id=record.job_id,
            name=entry.get("run_name"),
            started_ms=int(record.started * 1000),
            tags={"resilience.outcome": "running", **self._environment, **job_tags.callers(callers)},
            reopen=not callers,
            run_id=entry.get("run_id"),
            experiment=entry.get("experiment"),
            experiment_id=entry.get("experiment_id"),
        )
        tags = {"resilience.attempts": 0, "resilience.faults": 0, **(entry.get("tags") or {})}
        self._early.insert(0, opening)
        return [SetTags("job", tags), LogParams("job", entry.get("params") or {})]

    def _on_owner(self, entry: Entry) -> list[Operation]:
        over = self._end_script_runs("FAILED", but=entry.get("pid")) if entry.get("role") == "worker" else []
        return [*over, SetTags("job", job_tags.owner(entry))]

    def _end_script_runs(self, status: Status, but: Any = None) -> list[Operation]:
        """Of the script's processes that are gone, all but ``but``, what they had opened."""
        over = {run_id: data for run_id, data in self._script_runs.items() if but is None or data.get("pid") != but}
        for run_id in over:
            del self._script_runs[run_id]
        return [EndScriptRun(run_id, str(data.get("tracking_uri") or ""), status) for run_id, data in over.items()]

    def _on_script_run(self, entry: Entry) -> list[Operation]:
        data = entry.get("data") or {}
        run_id = str(data.get("run_id") or "")
        if not run_id or run_id == self.record.job.get("run_id"):
            return []
        self._script_runs[run_id] = data
        opened = [str(event["data"]["run_id"]) for event in self.record.events if event.get("name") == "script_run"]
        return [SetTags("job", {"resilience.script_runs": ",".join(dict.fromkeys(opened))})]

    def _run_of(self, entry: Entry) -> RunKey:
        run = entry.get("run", "job")
        return run if isinstance(run, int) else "job"

    def _on_params(self, entry: Entry) -> list[Operation]:
        return [LogParams(self._run_of(entry), entry.get("params") or {})]

    def _on_tags(self, entry: Entry) -> list[Operation]:
        return [SetTags(self._run_of(entry), entry.get("tags") or {})]

    def _on_resumed(self, entry: Entry) -> list[Operation]:
        return [SetTags("job", {**job_tags.resumed(entry), **job_tags.lineage(self.record)})]

    def _on_attempt(self, entry: Entry) -> list[Operation]:
        ended = [operation for number in sorted(self._open_attempts)
                 for operation in self._end_attempt(number, "FAILED", milliseconds(entry))]  # fmt: skip
        attempts = self.record.attempts
        if len(attempts) > 1 and attempts[-2].status == "FINISHED":  # it is known only now that it was not the last
            ended += self._say_ended(attempts[-2])
        return ended + self._open_attempt(self.record.attempt(entry.get("attempt")), milliseconds(entry))

    def _open_attempt(self, attempt: AttemptRecord, started_ms: int) -> list[Operation]:
        self._open_attempts.add(attempt.number)
        opening = OpenRun(
            run=attempt.number,
            local_id=f"{self.record.job_id}/attempt-{attempt.number}",
            name=f"attempt {attempt.number}",
            started_ms=started_ms,
            tags=job_tags.attempt_started(attempt),
        )
        return [opening, LogParams(attempt.number, attempt.settings), SetTags("job", job_tags.counts(self.record))]

    def _end_attempt(self, number: int, status: Status, ended_ms: int) -> list[Operation]:
        self._open_attempts.discard(number)
        attempt = self.record.attempt(number)
        attempt.status = attempt.status or status
        return [*self._say_ended(attempt), *self._say_differing(number), EndRun(number, status, ended_ms)]

    def _say_ended(self, attempt: AttemptRecord) -> list[Operation]:
        """On the job's run, and as the description of the attempt's own."""
        line = attempt_line(attempt)
        job = SetTags("job", {f"resilience.attempt.{attempt.number}": line})
        return [job, SetTags(attempt.number, {"mlflow.note.content": line})]

    def _on_attempt_ended(self, entry: Entry) -> list[Operation]:
        number = self.record.attempt(entry.get("attempt")).number
        return self._end_attempt(number, entry.get("status") or "FAILED", milliseconds(entry))

    def _say_differing(self, number: int) -> list[Operation]:
        said: list[Operation] = []
        for key, found in self.record.stitching.differing.items():
            new = found[self._said.get(key, 0) :]
            if not new:
                continue
            self._said[key] = len(found)
            step, was, now = new[0]
            text = f"{len(new)} of {key} differ on replay, first at step {step}: {now:.6g}, was {was:.6g}"
            data = {"key": key, "count": len(new), "step": step, "was": was, "now": now, "attempt": number}
            said.append(Say("replay_differs", text, number, data))
        return said

    def _on_points(self, entry: Entry) -> list[Operation]:
        return [LogMetrics(self.record.attempt(entry.get("attempt")).number, points_of(entry))]

    def _on_fresh(self, entry: Entry) -> list[Operation]:
        return [LogMetrics("job", self.record.fresh)] if self.record.fresh else []

    def _on_gauges(self, entry: Entry) -> list[Operation]:
        return self._gauges(points_of(entry))

    def _gauges(self, points: list[Point]) -> list[Operation]:
        clocked = [point for point in points if point[0].startswith(CLOCK_PREFIX)]
        others = [point for point in points if not point[0].startswith(CLOCK_PREFIX)]
        fresh = [point for point in others if (point[0], point[1]) not in self._gauges_sent]
        self._gauges_sent.update((point[0], point[1]) for point in fresh)
        operations: list[Operation] = [LogMetrics("job", clocked, clock=True)] if clocked else []
        return [*operations, LogMetrics("job", fresh)] if fresh else operations

    def _gauge(self, entry: Entry, step: int, **values: Any) -> list[Operation]:
        at = milliseconds(entry)
        points = [(f"resilience/{key}", step, float(value), at) for key, value in values.items() if value is not None]
        return self._gauges(points)

    def _on_fault(self, entry: Entry) -> list[Operation]:
        fault = self.record.faults[-1]
        tags: list[Operation] = [SetTags("job", job_tags.counts(self.record))]
        if not fault.in_place:
            tags.append(SetTags(fault.attempt, job_tags.fault(fault)))
        text, path = documents.exception_file(self.record, fault)
        files: list[Operation] = [SendText("job", text, path)]
        if forensics.concerns(fault):
            page = f"{documents.FOLDER}/forensics/fault-{fault.number:02d}.md"
            files.append(SendText("job", forensics.document(self.record, fault), page))
        return [*tags, *files]

    def _on_decision(self, entry: Entry) -> list[Operation]:
        fault = next((each for each in reversed(self.record.faults) if each.decision is entry), None)
        if fault is None or fault.in_place:
            return []
        line = attempt_line(self.record.attempt(fault.attempt))
        return [
            SetTags(fault.attempt, job_tags.decision(entry)),
            SetTags("job", {f"resilience.attempt.{fault.attempt}": line}),
        ]

    def _on_checkpoint(self, entry: Entry) -> list[Operation]:
        gauges = self._gauge(
            entry,
            int(entry.get("step") or 0),
            checkpoint_stall_ms=entry.get("stall_ms"),
            checkpoint_bytes=entry.get("bytes"),
        )
        return self._on_fresh(entry) + gauges

    def _on_model(self, entry: Entry) -> list[Operation]:
        local_id = f"{self.record.job_id}/{entry.get('local_id')}"
        points, run = job_tags.model_metrics(self.record, entry)
        return [LogModel(entry, local_id, points, run)]

    def _on_model_superseded(self, entry: Entry) -> list[Operation]:
        return [DropModel(f"{self.record.job_id}/{entry.get('local_id')}")]

    def _on_artifact(self, entry: Entry) -> list[Operation]:
        folder, table = str(entry.get("folder") or "resilience"), bool(entry.get("table"))
        return [SendFile(self._run_of(entry), str(entry.get("path")), folder, table)]

    def _on_event(self, entry: Entry) -> list[Operation]:
        if entry.get("name") == "lineage":
            return [SetTags("job", job_tags.lineage(self.record))]
        if entry.get("name") == "script_run":
            return self._on_script_run(entry)
        if entry.get("name") != "quarantine":
            return []
        self._quarantined += documents.quarantined_records(entry)
        return self._gauge(entry, int(entry.get("step") or 0), quarantined_records=self._quarantined)

    def _on_semantic_change(self, entry: Entry) -> list[Operation]:
        return [SetTags("job", job_tags.semantic_changes(self.record))]

    def _on_reproducible(self, entry: Entry) -> list[Operation]:
        return [SetTags("job", job_tags.reproducible(entry))]

    def _on_lost(self, entry: Entry) -> list[Operation]:
        step = int(entry.get("step") or self.record.last_step)
        return self._gauge(entry, step, lost_steps=entry.get("steps"), lost_seconds=entry.get("seconds"))

    def _on_job_ended(self, entry: Entry) -> list[Operation]:
        status = JOB_STATUS.get(self.record.outcome, "FAILED")
        at = milliseconds(entry)
        ends = [operation for number in sorted(self._open_attempts)
                for operation in self._end_attempt(number, status, at)]  # fmt: skip
        totals = self._gauge(entry, self.record.last_step, **job_tags.goodput(self.record))
        tags = SetTags("job", job_tags.ended(self.record))
        last: list[Operation] = [*self._end_script_runs(status), *totals, tags, Documents()]
        if not self.record.job.get("caller_owns_end") or entry.get("owner_gone"):
            last.append(EndRun("job", status, at))
        return [*self._on_fresh(entry), *ends, *last]

    _handlers: ClassVar[dict[str, Callable[[Projection, Entry], list[Operation]]]] = {
        "job": _on_job,
        "owner": _on_owner,
        "params": _on_params,
        "tags": _on_tags,
        "resumed": _on_resumed,
        "attempt": _on_attempt,
        "attempt_ended": _on_attempt_ended,
        "points": _on_points,
        "carried": _on_fresh,
        "gauges": _on_gauges,
        "fault": _on_fault,
        "decision": _on_decision,
        "checkpoint": _on_checkpoint,
        "model": _on_model,
        "model_superseded": _on_model_superseded,
        "artifact": _on_artifact,
        "event": _on_event,
        "semantic_change": _on_semantic_change,
        "reproducible": _on_reproducible,
        "lost": _on_lost,
        "job_ended": _on_job_ended,
    }
