"""The number of micro-batches that a job needed, offered to the next job that trains the same on the same kind of
device: it need not run out of memory to find it again."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlflow_resilience import telemetry
from mlflow_resilience.core.judge import Judge
from mlflow_resilience.job import Job
from mlflow_resilience.spool import atomic
from mlflow_resilience.spool.journal import read

_TAG = "resilience.resume_key"


class Sizes:
    """One small file in the home folder for each training and kind of device. Without ``keep`` what the job learns is
    forgotten with it: faults on purpose taught it."""

    def __init__(self, job: Job, judge: Judge, *, keep: bool) -> None:
        self._job, self._judge, self._keep = job, judge, keep
        self._path: Path | None = None

    def offer(self) -> None:
        """A job begins at its start: let it use what an earlier one found, where its policy allows that."""
        policy, log = self._judge.policy, self._judge.log
        found = self._read()
        if found is None or log.attempt or not (policy.recover and policy.allow_semantic_changes):
            return
        pieces = int(found["accumulation"])
        log.settings = replace(log.settings, accumulation=pieces, grown_back=bool(found.get("grown_back")))
        text = (
            f"each batch in {pieces} micro-batches from the start, as an earlier job with the same model and data "
            f"needed on {found.get('device')}; to begin with whole batches again, delete {self._file()}"
        )
        self._job.journal.append("event", name="remembered_size", attempt=0, step=0, text=text, data=dict(found))

    def remember(self) -> None:
        """The job's training has ended, in whichever way: keep what it found."""
        settings, path = self._judge.settings, self._file() if self._keep else None
        if path is None:
            return
        found = {"accumulation": settings.accumulation, "grown_back": settings.grown_back}
        if settings.accumulation > 1:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_json(path, {**found, "device": device(), "job": self._job.folder.job_id, "time": time.time()})
        elif settings.grown_back:
            path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any] | None:
        path = self._file()
        found = atomic.read_json(path) if path is not None else None
        usable = isinstance(found, dict) and isinstance(found.get("accumulation"), int) and found["accumulation"] > 1
        return found if usable else None

    def _file(self) -> Path | None:
        if self._path is None and (key := self._key()):
            name = hashlib.sha256(f"{key} {device()}".encode()).hexdigest()[:24]
            self._path = self._job.folder.path.parents[1] / "sizes" / f"{name}.json"
        return self._path

    def _key(self) -> str | None:
        """The resume key, as the job has told it."""
        self._job.journal.flush()
        told = [entry["tags"] for entry, _ in read(self._job.folder.journal) if entry.get("kind") == "tags"]
        return next((tags[_TAG] for tags in reversed(told) if _TAG in tags), None)


def device() -> str:
    """The kind of device that training runs on here, as far as its memory goes."""
    gpus = telemetry.environment().get("gpus")
    if gpus:
        return " and ".join(sorted({str(gpu) for gpu in gpus}))
    memory = telemetry.snapshot()
    size = min(memory.get("cgroup_limit_mb", float("inf")), memory.get("host_total_mb", float("inf")))
    return f"a CPU with {size / 1000:.0f} GB"
