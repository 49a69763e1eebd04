"""Jobs written by SQL straight into a store that MLflow made: quick, and as many as are wanted."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

START = 1_800_000_000_000
Curve = list[tuple[int, float]]


def improving(epochs: int = 10, shift: float = 0.0, steps: int = 10) -> dict[str, Curve]:
    """Loss and accuracy of each epoch, with some noise."""
    wave = {epoch: 0.02 * math.sin(epoch * 2.3) for epoch in range(1, epochs + 1)}
    loss = [(epoch * steps, 1.5 * math.exp(-epoch / 4) + 0.2 + wave[epoch] + shift) for epoch in wave]
    accuracy = [(step, 1 - value / 3) for step, value in loss]
    return {"loss": loss, "val_loss": [(step, value + 0.05) for step, value in loss], "val_accuracy": accuracy}


class Store:
    """An SQLite store in ``folder``, its artifacts beside it."""

    def __init__(self, folder: Path, experiment: str = "jobs") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.database = folder, folder / "store.db"
        self.uri = f"sqlite:///{self.database}"
        self.artifacts = folder / "artifacts"
        self.client = MlflowClient(self.uri)
        self.experiment = self.client.create_experiment(experiment, artifact_location=str(self.artifacts))
        self._connection = sqlite3.connect(self.database)
        self._clock = START

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.commit()
        self._connection.close()

    def run(
        self, name: str, *, status: str = "FINISHED", tags: dict[str, Any] | None = None,
        params: dict[str, Any] | None = None, curves: dict[str, Curve] | None = None, seconds: float = 60.0,
        stage: str = "active",
    ) -> str:  # fmt: skip
        """One run; its id. Later ones are newer."""
        run_id = uuid.uuid4().hex
        start, self._clock = self._clock, self._clock + 1000
        end = None if status == "RUNNING" else start + int(seconds * 1000)
        self._connection.execute(
            "insert into runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, start_time,"
            " end_time, source_version, lifecycle_stage, artifact_uri, experiment_id)"
            " values (?, ?, 'LOCAL', '', '', 'ada', ?, ?, ?, '', ?, ?, ?)",
            (run_id, name, status, start, end, stage, str(self.artifacts / run_id / "artifacts"), self.experiment),
        )
        self._pairs("tags", run_id, {"mlflow.runName": name, **(tags or {})})
        self._pairs("params", run_id, params or {})
        for key, curve in (curves or {}).items():
            self._metric(run_id, key, curve, start)
        self._connection.commit()
        return run_id

    def _pairs(self, table: str, run_id: str, pairs: dict[str, Any]) -> None:
        rows = [(key, str(value), run_id) for key, value in pairs.items()]
        self._connection.executemany(f"insert into {table} (key, value, run_uuid) values (?, ?, ?)", rows)

    def _metric(self, run_id: str, key: str, curve: Curve, start: int) -> None:
        rows = [
            (key, 0.0 if math.isnan(value) else value, start + step, step, run_id, math.isnan(value))
            for step, value in curve
        ]
        columns = "(key, value, timestamp, step, run_uuid, is_nan) values (?, ?, ?, ?, ?, ?)"
        self._connection.executemany(f"insert into metrics {columns}", rows)
        self._connection.executemany(f"insert into latest_metrics {columns}", rows[-1:])

    def job(
        self, name: str = "a job", outcome: str = "clean", *, digest: str | None = "d1", epochs: int = 10,
        curves: dict[str, Curve] | None = None, params: dict[str, Any] | None = None, **tags: Any,
    ) -> str:  # fmt: skip
        """A job run as the sender leaves it, with its final model."""
        status = {"clean": "FINISHED", "recovered": "FINISHED", "running": "RUNNING"}.get(outcome, "FAILED")
        base = {
            "outcome": outcome, "attempts": 1, "faults": 0, "lineage_lost_steps": 0, "host": "one", "python": "3.11.2",
            "version.tensorflow": "2.21.0", "resume_key": "k1", **tags,
        }  # fmt: skip
        shown = improving(epochs) if curves is None else curves
        run_id = self.run(
            name, status=status, params={"epochs": epochs, "learning_rate": 0.002, "fault": "none", **(params or {})},
            tags={f"resilience.{key}": value for key, value in base.items() if value is not None},
            curves={**shown, "resilience/goodput": [(100, 0.93)]},
        )  # fmt: skip
        if digest is not None and outcome in ("clean", "recovered"):
            self.model(run_id, digest)
        return run_id

    def model(self, run_id: str, digest: str, status: int = 2, name: str = "model") -> None:
        model_id = f"m-{uuid.uuid4().hex}"
        self._connection.execute(
            "insert into logged_models (model_id, experiment_id, name, artifact_location, creation_timestamp_ms,"
            " last_updated_timestamp_ms, status, lifecycle_stage, source_run_id)"
            " values (?, ?, ?, '', ?, ?, ?, 'active', ?)",
            (model_id, self.experiment, name, self._clock, self._clock, status, run_id),
        )
        self._connection.execute(
            "insert into logged_model_tags (model_id, experiment_id, tag_key, tag_value) values (?, ?, ?, ?)",
            (model_id, self.experiment, "resilience.digest", digest),
        )
        self._connection.commit()

    def rename(self, run_id: str, to: str) -> None:
        """Give a run another id."""
        self._connection.execute("pragma foreign_keys = off")
        self._connection.execute("update runs set run_uuid = ? where run_uuid = ?", (to, run_id))
        for table in ("tags", "params", "metrics", "latest_metrics"):
            self._connection.execute(f"update {table} set run_uuid = ? where run_uuid = ?", (to, run_id))
        self._connection.commit()

    def attempt(self, job: str, number: int, **more: Any) -> str:
        tags = {"mlflow.parentRunId": job, "resilience.attempt": number, **more.pop("tags", {})}
        return self.run(f"attempt {number}", tags=tags, **more)

    def events(self, run_id: str, entries: Iterable[dict[str, Any]]) -> None:
        """The run's ``events.jsonl``."""
        folder = self.artifacts / run_id / "artifacts" / "resilience"
        folder.mkdir(parents=True)
        lines = [json.dumps({"format": 1, **entry}, ensure_ascii=False) for entry in entries]
        (folder / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
