"""Reads the journal eagerly: what is asked, who is alive, how it ended; and adds what nobody else can say."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

from mlflow_resilience.spool.codec import Entry, Reader
from mlflow_resilience.spool.folder import JobFolder
from mlflow_resilience.spool.journal import Journal
from mlflow_resilience.spool.process import host, is_alive
from mlflow_resilience.spool.record import JobRecord
from mlflow_resilience.tracking.operations import Say
from mlflow_resilience.tracking.publisher import EventFiles

FOREIGN_SECONDS = 45.0  # a foreign owner whose folder stands still for so long counts as dead
DEAD_SECONDS = 1.0
CARRIED_POINTS = 10_000
LIVELY = frozenset({"points", "gauges", "times", "artifact", "params", "tags"})  # no reason to render anew at once


class Scout:
    """The record as of now. Appends to the journal only what the sender alone finds out."""

    def __init__(self, folder: JobFolder, journal: Journal, files: EventFiles) -> None:
        self.folder, self._journal, self._files = folder, journal, files
        self.record = JobRecord()
        self.asks: list[Entry] = []
        self.entries = 0
        self.changed = False  # since the flag was last taken back: something the documents show
        self._reader = Reader(folder.journal)
        self._carried = False
        self._dead_since: float | None = None

    def poll(self) -> None:
        """Take in what is new."""
        for entry, _ in self._reader.poll():
            self.entries += 1
            with contextlib.suppress(Exception):  # the pump reports an entry that makes no sense
                self.record.add(entry)
            self._files.add(entry)
            kind = entry.get("kind")
            self.changed |= kind not in LIVELY or kind == "points"
            self._carried |= kind == "carried" and entry.get("last", True)
            if kind == "ask" and not self.answer_path(entry).exists():
                self.asks.append(entry)

    def answer_path(self, ask: Entry) -> Any:
        """Where the answer to a question is written."""
        return self.folder.answers / f"{os.path.basename(str(ask.get('request')))}.json"

    @property
    def ended(self) -> bool:
        return self.record.ended is not None

    @property
    def to_carry(self) -> Entry | None:
        """The ``resumed`` entry whose earlier curve has not been carried over yet."""
        resumed = self.record.resumed
        if self._carried or resumed is None or resumed.get("from_job") == self.folder.job_id:
            return None
        return resumed

    def append(self, kind: str, /, **fields: Any) -> None:
        """Add an entry of our own, durably, and take it in."""
        self._journal.append(kind, durable=True, **fields)
        self.poll()

    def carry(self, points: list[Any], last: bool = True) -> None:
        """Write a part of the earlier job's curve into our journal, in entries of bounded size; ``last`` ends it."""
        for start in range(0, len(points) + 1, CARRIED_POINTS):
            part = points[start : start + CARRIED_POINTS]
            self._journal.append("carried", points=part, last=last and start + CARRIED_POINTS > len(points))
        self._journal.flush()
        self.poll()

    def say(self, operation: Say) -> None:
        """Add the event unless the journal has it."""
        self.poll()
        if any(
            event.get("name") == operation.name and event.get("data") == operation.data for event in self.record.events
        ):
            return
        step = operation.data.get("step", self.record.last_step)
        self.append(
            "event", name=operation.name, attempt=operation.attempt, step=step, text=operation.text, data=operation.data
        )

    def is_owner_alive(self) -> bool:
        """Whether any process that owns the job still runs."""
        if self.folder.owner() is not None:
            return True
        owners = self.record.owners or [self.record.header]
        here = [entry for entry in owners if entry.get("host", host()) == host()]
        if any(is_alive(int(entry.get("pid") or 0), entry.get("start_ticks")) for entry in here):
            return True
        return len(here) < len(owners) and self._stirred_lately()

    def _stirred_lately(self) -> bool:
        try:
            return time.time() - self.folder.journal.stat().st_mtime < FOREIGN_SECONDS
        except OSError:
            return False

    def bury(self) -> bool:
        """Write the end of a job whose owners are all gone without a word of it. True when that was done."""
        if self.ended or not self.record.header or self.is_owner_alive():
            self._dead_since = None
            return False
        if self._dead_since is None:
            self._dead_since = time.monotonic()
        if time.monotonic() - self._dead_since < DEAD_SECONDS:
            return False
        self.poll()
        if not self.ended:
            self._write_end()
        return True

    def _epoch(self) -> int:
        """The one that the trainer was last in, as its heartbeat has it."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            return int(json.loads(self.folder.heartbeat.read_bytes())["epoch"])
        return self.record.attempts[-1].epoch if self.record.attempts else 0

    def _write_end(self) -> None:
        text = "the process died without a word; start the same command again to resume"
        for attempt in self.record.attempts:
            if attempt.status is None:
                if attempt.fault is None:
                    self._write_fault(attempt.number)
                self.append("attempt_ended", attempt=attempt.number, status="FAILED", step=attempt.last_step)
        self._write_lost()
        self.append("job_ended", outcome="failed", exit_code=None, text=text, owner_gone=True)

    def _write_lost(self) -> None:
        """What was done beyond the newest checkpoint has to be done again."""
        record = self.record
        step, reached = record.kept()
        if record.attempts and record.last_step > step:
            seconds = max(0.0, record.last_time - reached)
            number = record.attempts[-1].number
            self.append("lost", attempt=number, seconds=seconds, steps=record.last_step - step)

    def _write_fault(self, attempt: int) -> None:
        number = len(self.record.faults) + 1
        fault = {
            "exception": "ProcessDeath",
            "message": "the process ended without a word: killed, or the machine went down",
            "phase": "process",
            "position": {"global_step": self.record.last_step, "epoch": self._epoch(), "step": 0},
            "time": time.time(),
        }
        self.append(
            "fault", attempt=attempt, number=number, in_place=False, fault=fault, failure_class="process_death",
            failure_domain="unknown", hint="the same command goes on from the last checkpoint", memory={},
        )  # fmt: skip
        self.append(
            "decision", attempt=attempt, number=number, verdict="stop", resumption=None, actions=[], settings={},
            delay=0, basis="owner_gone", text="stop: no process of the job is left that could go on",
        )  # fmt: skip
