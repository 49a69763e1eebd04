"""Smaller models of a finished training: made, measured, and logged beside it. The training's own model stands by then,
and whatever goes wrong here takes nothing from it."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_resilience.core.redaction import redact
from mlflow_resilience.job import Job
from mlflow_resilience.parameters import Parameters
from mlflow_resilience.spool.heartbeat import Heartbeat
from mlflow_resilience.spool.journal import read

if TYPE_CHECKING:
    import keras

    from mlflow_resilience.compression import Measured, Table

BEGUN, DONE, FAILED, LINE = "compressing", "compressed", "compression_failed", "compression"
TABLE = "compression.json"
TRIES = 2  # processes that may die of it: the training has gone well, and is not to be given up for this


def make_smaller(job: Job, parameters: Parameters, model: keras.Model, call: dict[str, Any], step: int) -> None:
    """What the parameter ``compress`` asks for, once in a job."""
    wanted = parameters.smaller()
    begun = _begun(job) if wanted else None
    if begun is None:
        return
    if begun >= TRIES:
        text = f"the model is not compressed: {begun} processes have died of it"
        return _tell(job, FAILED, text, step, durable=True)
    _tell(job, BEGUN, f"making smaller models: {parameters.compress}", step, durable=True)
    try:
        with contextlib.closing(Heartbeat(job.folder.heartbeat)) as heart:
            heart.beat("compress", step)
            table = _made(job, parameters, model, call, lambda: heart.beat("compress", step))
        _log(job, table, model, parameters.compress, step)
    except Exception as error:  # of the user's data or model, or the disk is full: the training itself has gone well
        text = f"the model could not be compressed: {type(error).__name__}: {error}"
        _tell(job, FAILED, redact(text), step, durable=True)


def _made(
    job: Job, parameters: Parameters, model: keras.Model, call: dict[str, Any], alive: Callable[[], None]
) -> Table:
    import keras

    from mlflow_resilience.compression import compress

    train, fit = _training(call)
    told = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: alive())
    return compress(
        model,
        parameters.smaller(),
        train,
        call.get("validation_data"),
        folder=job.folder.path / "compressed",
        seed=parameters.seed,
        callbacks=[told],
        **fit,
    )


def _training(call: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    if call.get("y") is None:
        return call["x"], {}
    columns = tuple(call[name] for name in ("x", "y", "sample_weight") if call.get(name) is not None)
    return columns, {"batch_size": call.get("batch_size")}


def _begun(job: Job) -> int | None:
    """How often it was begun in this job; None where it has come to an end."""
    job.journal.flush()
    events = [entry.get("name") for entry, _ in read(job.folder.journal) if entry.get("kind") == "event"]
    return None if DONE in events or FAILED in events else events.count(BEGUN)


def _logged(job: Job) -> set[str]:
    """The models that an earlier process has handed over already."""
    job.journal.flush()
    return {str(entry.get("local_id")) for entry, _ in read(job.folder.journal) if entry.get("kind") == "model"}


def _log(job: Job, table: Table, model: keras.Model, asked: str, step: int) -> None:
    from mlflow_resilience.training.export import signature

    described = json.dumps({"signature": signature(model)})
    logged = _logged(job)
    for row in (row for row in table.made if _local_id(row) not in logged):
        _log_model(job, row, described, asked, step)
    path = job.folder.artifacts / TABLE
    path.write_text(json.dumps(table.to_dict()))
    job.journal.append("artifact", run="job", path=str(path), folder="resilience", table=True)
    for line in table.lines():
        _tell(job, LINE, line, step)
    names = ", ".join(row.name for row in table.made) or "nothing"
    _tell(job, DONE, f"compressed, from {table.original.records} records: {names}", step, durable=True)


def _local_id(row: Measured) -> str:
    return f"compressed-{row.name}"


def _log_model(job: Job, row: Measured, described: str, asked: str, step: int) -> None:
    local_id = _local_id(row)
    folder = job.folder.path / "models" / local_id
    folder.mkdir(parents=True, exist_ok=True)
    shutil.move(row.path, folder / f"model{Path(row.path).suffix}")
    (folder / "model.json").write_text(described)
    figures = {**row.metrics, "bytes": row.bytes, "gzip_bytes": row.gzip_bytes, "latency_ms": row.latency_ms}
    job.journal.append(
        "model",
        durable=True,
        local_id=local_id,
        name=f"model-{row.name}",
        attempt=job.log().attempt,
        step=step,
        folder=str(folder),
        tags={"resilience.compression": asked, "resilience.compression_note": row.note},
        metrics={f"{row.name}/{name}": float(value) for name, value in figures.items()},
        delete_after_upload=True,
    )


def _tell(job: Job, name: str, text: str, step: int, durable: bool = False) -> None:
    job.journal.append("event", durable=durable, name=name, attempt=job.log().attempt, step=step, text=text, data={})
