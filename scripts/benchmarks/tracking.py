"""What tracking costs the training, with a server that hangs and at a thousand metrics a second."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from intervals import interval

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")

WARM = 60  # steps that are not measured: tracing, and the sender's start beside them
RATE, METRICS = 1000, 10  # metrics a second; metrics a step


class Server:
    """`mlflow server` on the loopback, on SQLite, with its artifacts served."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.uri, self.database = f"http://127.0.0.1:{port}", folder / "server.db"
        store = ["--backend-store-uri", f"sqlite:///{self.database}", "--artifacts-destination", str(folder / "files")]
        command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1", *store]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True)

    def wait(self) -> None:
        until(self._answers, 180)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.uri}/health", timeout=2) as reply:
            return bool(reply.status == 200)
        return False

    def signal(self, number: int) -> None:
        os.killpg(self._process.pid, number)

    def end(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def servers(*names: str) -> Iterator[list[Server]]:
    with tempfile.TemporaryDirectory() as folder:
        made = [Server(Path(folder) / name) for name in names]
        try:
            for server in made:
                server.wait()
            yield made
        finally:
            for server in made:
                server.end()


def until(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen in time")
        time.sleep(0.1)


# -- a server that hangs -----------------------------------------------------------------------------------------------


def train(uri: str, steps: int) -> float:
    """Seconds of a training's steps, with its sender beside it."""
    import keras
    import numpy as np

    import mlflow_resilience

    class Times(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.begun: list[float] = []

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.begun.append(time.perf_counter())

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((256,)), *(keras.layers.Dense(512, "relu") for _ in range(3))])
    model.compile("adam", "mse", metrics=["mae"])
    x = np.random.default_rng(0).normal(size=(64, 256)).astype("float32")
    times = Times()
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(MLFLOW_RESILIENCE_HOME=home, MLFLOW_TRACKING_URI=uri)
        import mlflow

        mlflow.set_tracking_uri(uri)
        import tensorflow as tf

        data = tf.data.Dataset.from_tensors((x, np.ones((64, 512), "float32"))).repeat(WARM + steps)
        checkpoints = mlflow_resilience.Checkpoints(local="1epoch", log_models=False)
        mlflow_resilience.fit(model, data, epochs=1, verbose=0, callbacks=[times], checkpoints=checkpoints)
        _end_senders(Path(home))
    return times.begun[-1] - times.begun[WARM]


def _end_senders(home: Path) -> None:
    from mlflow_resilience.spool.folder import jobs

    for job in jobs(home):
        sender = job.sender()
        if sender is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(sender["pid"]), signal.SIGKILL)
            until(lambda job=job: job.sender() is None, 10)


def measure_hung(pairs: int, steps: int) -> dict[str, Any]:
    """Trainings in pairs, one with a healthy server and one with a server that stands still, in turns first."""
    ratios, healthy = [], []
    with servers("healthy", "hung") as (well, hung):
        hung.signal(signal.SIGSTOP)
        train(well.uri, 20)
        for pair in range(pairs):
            order = (well, hung) if pair % 2 else (hung, well)
            seconds = {server.uri: train(server.uri, steps) for server in order}
            ratios.append(seconds[hung.uri] / seconds[well.uri])
            print(f"pair {pair + 1}: {ratios[-1]:.3f}", flush=True)
            healthy.append(seconds[well.uri])
    low, high = interval(ratios)
    return {
        "pairs": pairs,
        "steps": steps,
        "step_ms": round(1000 * statistics.median(healthy) / steps, 1),
        "ratio": round(statistics.median(ratios), 4),
        "interval": [round(low, 4), round(high, 4)],
        "ratios": [round(ratio, 4) for ratio in ratios],
    }


# -- a thousand metrics a second ---------------------------------------------------------------------------------------


def measure_rate(seconds: float) -> dict[str, Any]:
    """So many points as they would come from a training, with the time that each append takes."""
    import psutil

    from mlflow_resilience import job as jobs

    with servers("server") as (server,), tempfile.TemporaryDirectory() as home:
        os.environ.update(MLFLOW_RESILIENCE_HOME=home, MLFLOW_TRACKING_URI=server.uri)
        job = jobs.begin({"params": {}, "run_name": "rate", "tracking_uri": server.uri})
        job.journal.append("attempt", attempt=1, step=0, epoch=0, settings={}, reason="")
        until(lambda: job.folder.read_sender_state().get("run_id"), 120)
        sender, own = psutil.Process(int(job.folder.read_sender_state()["pid"])), psutil.Process()
        before = own.memory_info().rss, sender.memory_info().rss
        took, late, wall = _feed(job, seconds)
        after = own.memory_info().rss, sender.memory_info().rss
        waiting = job.folder.read_sender_state().get("pending", 0)
        last = len(took)
        job.journal.append("checkpoint", attempt=1, step=last, epoch=0, digest="", path="", bytes=0)
        job.journal.append("attempt_ended", durable=True, attempt=1, status="FINISHED", step=last)
        ended = time.monotonic()
        jobs.end(job, "clean", 0)
        until(lambda: job.folder.read_sender_state().get("state") == "done", 600)
        drained = time.monotonic() - ended
        found = _stored(server.database, str(job.folder.read_sender_state()["run_id"]))
    return {
        "seconds": round(wall, 1),
        "metrics": last * METRICS,
        "append_us": _quantiles(took),
        "late_ms_most": round(1000 * max(late), 2),
        "own_mb_more": round((after[0] - before[0]) / 1e6, 1),
        "sender_mb_more": round((after[1] - before[1]) / 1e6, 1),
        "waiting_at_the_end": waiting,
        "drained_after_seconds": round(drained, 1),
        "stored": found[0],
        "stored_twice": found[1],
    }


def _feed(job: Any, seconds: float) -> tuple[list[float], list[float], float]:
    """A step every hundredth of a second."""
    took, late, begun, period = [], [], time.perf_counter(), METRICS / RATE
    for step in range(1, round(seconds * RATE / METRICS) + 1):
        due = begun + step * period
        time.sleep(max(0.0, due - time.perf_counter()))
        before, ms = time.perf_counter(), int(time.time() * 1000)
        points = [[f"batch/metric_{name}", step, step / 7, ms] for name in range(METRICS)]
        job.journal.append("points", attempt=1, points=points)
        after = time.perf_counter()
        took.append(after - before)
        late.append(after - due)
    return took, late, time.perf_counter() - begun


def _quantiles(took: list[float]) -> dict[str, float]:
    ordered = sorted(took)
    at = {"median": 0.5, "99 %": 0.99, "most": 1.0}
    return {name: round(1e6 * ordered[min(len(ordered) - 1, int(q * len(ordered)))], 1) for name, q in at.items()}


def _stored(database: Path, run_id: str) -> tuple[int, int]:
    """Points on the job's run, and how many of them are there twice."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=rw", uri=True)) as store:
        query = (
            "select count(*), count(distinct key || ' ' || step) from metrics where run_uuid=? and key like 'batch/%'"
        )
        points, different = store.execute(query, (run_id,)).fetchone()
    return int(points), int(points - different)


def measure(quick: bool) -> dict[str, Any]:
    rate = measure_rate(5 if quick else 60)
    return {"rate": rate, "hung": measure_hung(1 if quick else 10, 100 if quick else 1000)}


def page(told: dict[str, Any]) -> list[str]:
    hung, rate = told["hung"], told["rate"]
    low, high = hung["interval"]
    append = rate["append_us"]
    return [
        "## What tracking costs",
        "",
        f"*A server that hangs* (SIGSTOP for the whole job): `fit` takes **{hung['ratio']}** of its time with a "
        f"healthy one (median of {hung['pairs']} pairs of trainings of {hung['steps']} steps of {hung['step_ms']} ms, "
        f"in turns; 95 % interval {low} to {high}).",
        "",
        f"*{RATE:,} metrics a second* for {rate['seconds']} s, {METRICS} a step, with a healthy server: an append "
        f"takes {append['median']} µs (median), {append['99 %']} µs (99 %), {append['most']} µs (most). The process "
        f"grew by {rate['own_mb_more']} MB, its sender by {rate['sender_mb_more']} MB; "
        f"{rate['drained_after_seconds']} s after the end the server had {rate['stored']:,} of {rate['metrics']:,} "
        f"points, {rate['stored_twice']} of them twice.",
        "",
    ]
