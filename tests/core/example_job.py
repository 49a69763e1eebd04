"""A job that went through much, as the entries of its journal."""

from __future__ import annotations

import math
from typing import Any

from mlflow_resilience.spool.record import JobRecord

START = 1_800_000_000.0
Entry = dict[str, Any]

TRACEBACK = """Traceback (most recent call last):
  File "/home/ada/train.py", line 41, in train_step
    loss = self.compute_loss(x, y, prediction)
  File "/home/ada/losses.py", line 12, in focal
    raise RuntimeError("label <script>alert(1)</script> is \\"strange\\"")
RuntimeError: label <script>alert(1)</script> is "strange"
"""


def fault(number: int, attempt: int, step: int, failure_class: str, when: float, **more: Any) -> list[Entry]:
    """A fault and its decision."""
    facts = {
        "exception": more.pop("exception", "RuntimeError"),
        "message": more.pop("message", "something broke"),
        "traceback": more.pop("traceback", TRACEBACK),
        "phase": more.pop("phase", "step"),
        "position": {"global_step": step, "epoch": step // 50, "step": step % 50},
        "signal": more.pop("signal", None),
        "chain": more.pop("chain", []),
    }
    decision = {
        "verdict": "continue",
        "resumption": more.pop("resumption", "roll_back"),
        "actions": more.pop("actions", ["RollBack"]),
        "basis": more.pop("basis", "first_rung"),
        "text": more.pop("text", "go on from the last checkpoint"),
        "delay": 1.0,
    }
    return [
        {
            "kind": "fault",
            "time": START + when,
            "attempt": attempt,
            "number": number,
            "in_place": more.get("in_place", False),
            "fault": facts,
            "failure_class": failure_class,
            "failure_domain": more.get("domain", "workload"),
            "hint": more.get("hint", ""),
            "memory": more.get("memory", {}),
        },
        {"kind": "decision", "time": START + when, "attempt": attempt, "number": number, **decision},
    ]


def points(attempt: int, first: int, last: int, *, nan_from: int | None = None) -> list[Entry]:
    """Per-step and per-epoch points of steps ``first + 1`` to ``last``."""
    found: list[list[Any]] = []
    for step in range(first + 1, last + 1):
        bad = nan_from is not None and step >= nan_from
        loss = math.nan if bad else 2.2 * math.exp(-step / 90) + 0.06 + 0.05 * math.sin(step * 1.7)
        ms = int((START + 6 + step * 0.25) * 1000)
        found.append(["batch/loss", step, loss, ms])
        if step % 50 == 0:
            found += [
                ["loss", step, loss, ms],
                ["val_loss", step, loss * 1.15 + 0.02, ms],
                ["accuracy", step, 1 - loss / 2.6, ms],
                ["val_accuracy", step, 0.985 - loss / 2.6, ms],
            ]
    return [{"kind": "points", "time": START + 6 + last * 0.25, "attempt": attempt, "points": found}]


def checkpoint(step: int, attempt: int) -> Entry:
    return {
        "kind": "checkpoint",
        "time": START + 6 + step * 0.25,
        "attempt": attempt,
        "step": step,
        "epoch": step // 50,
        "digest": f"sha256:{step:064x}",
        "bytes": 1_400_000,
        "stall_ms": 4.0,
        "write_ms": 61.0,
    }


def attempt(number: int, step: int, when: float, reason: str = "", **settings: Any) -> Entry:
    return {
        "kind": "attempt",
        "time": START + when,
        "attempt": number,
        "step": step,
        "epoch": step // 50,
        "pid": 4000 + number,
        "reason": reason,
        "settings": {
            "accumulation": 1,
            "learning_rate_scale": 1.0,
            "skipped_batches": [],
            "input_reduction": 1,
            "memory_growth": False,
            **settings,
        },
    }


def ended(number: int, step: int, when: float, status: str = "FAILED") -> Entry:
    return {"kind": "attempt_ended", "time": START + when, "attempt": number, "step": step, "status": status}


def times(number: int, when: float, **parts: float) -> Entry:
    """What the attempt's process has told of itself; each has one of its own."""
    return {"kind": "times", "time": START + when, "pid": 4000 + number, "attempt": number, **parts}


def gauges(seconds: int) -> list[Entry]:
    found: list[list[Any]] = []
    for second in range(seconds):
        rss = 700 + 8 * second + (900 if 30 <= second <= 33 else 0)
        ms = int((START + second) * 1000)
        found += [
            ["memory/process_rss_mb", second, rss, ms],
            ["memory/host_available_mb", second, 22000 - rss, ms],
            ["memory/gpu_0_used_mb", second, min(15800, 3000 + 400 * second), ms],
            ["memory/gpu_0_total_mb", second, 16000, ms],
            ["memory/tf_peak_mb", second, min(14000, 2000 + 400 * second), ms],
        ]
    return [{"kind": "gauges", "time": START + seconds, "points": found}]


def memory(rss: float) -> Entry:
    return {
        "process_rss_mb": rss,
        "worker_rss_mb": rss - 60,
        "host_available_mb": 20000.0,
        "host_total_mb": 25000.0,
        "cgroup_limit_mb": 4000.0,
        "gpus": [{"index": 0, "name": "Fake A", "used_mb": 15800.0, "total_mb": 16000.0, "own_mb": 15000.0}],
        "high_water": {"process_rss_mb": rss + 850, "gpu_0_used_mb": 15900.0, "host_available_mb": 19000.0},
    }


OOM = (
    "Graph execution error:\n\nOut of memory while trying to allocate 6.52GiB.\n\t "
    "[[{{node StatefulPartitionedCall}}]] [Op:__inference_multi_step_on_iterator_1873]"
)


def entries() -> list[Entry]:
    """Five attempts: a user's error, out of memory, a kill, a divergence; a record quarantined in place."""
    quarantine = {
        "kind": "event",
        "name": "quarantine",
        "time": START + 20,
        "attempt": 1,
        "step": 34,
        "text": "1 record left out: corrupt JPEG",
        "data": {"records": [{"index": 1034, "path": "/data/猫/0034.jpg", "error": "jpeg::Uncompress failed"}]},
    }
    return [
        {"kind": "header", "time": START, "job_id": "20270115-080000-a1b2c3", "format": 1},
        {
            "kind": "job",
            "time": START,
            "started": START,
            "job_id": "20270115-080000-a1b2c3",
            "experiment": "digits",
            "run_id": None,
            "run_name": "wise-owl-17",
            "tracking_uri": "sqlite:///mlflow.db",
            "params": {"recipe": "digits", "epochs": 4, "batch_size": 64, "learning_rate": 0.002, "seed": 7},
            "tags": {},
        },
        {
            "kind": "resumed",
            "time": START,
            "from_job": "20270114-220000-ffeedd",
            "from_run": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
            "from_model": "m-55aa",
            "from_step": 0,
            "text": "resumed from run 0a1b2c3d at step 0",
        },
        attempt(1, 0, 6),
        *fault(
            1,
            1,
            34,
            "bad_data",
            20,
            in_place=True,
            phase="data",
            exception="InvalidArgumentError",
            actions=["Quarantine"],
            message="{{function_node __wrapped__IteratorGetNext}} jpeg::Uncompress failed. Invalid JPEG data.",
            resumption="in_place",
            text="find and leave out the bad records, train the rest",
            basis="first_rung",
        ),
        quarantine,
        *points(1, 0, 50),
        checkpoint(50, 1),
        *points(1, 50, 60),
        *fault(
            2,
            1,
            60,
            "unknown",
            21.5,
            message='label <script>alert(1)</script> is "strange"',
            domain="unknown",
            hint="raised in your own code at losses.py:12",
        ),
        times(1, 21.5, startup=6.0, productive=12.5, save_stall=0.1, data_wait=0.6, backoff=1.0, recovery=0.4),
        ended(1, 60, 22),
        {"kind": "lost", "time": START + 22, "attempt": 1, "steps": 10, "seconds": 2.6},
        {"kind": "rolled_back", "time": START + 22, "attempt": 1, "step": 50},
        attempt(2, 50, 24, "go on from the last checkpoint"),
        *points(2, 50, 100),
        checkpoint(100, 2),
        *points(2, 100, 118),
        *fault(
            3,
            2,
            118,
            "device_oom",
            33,
            exception="ResourceExhaustedError",
            message=OOM,
            memory=memory(1800.0),
            actions=["SplitBatch"],
            text="train each batch in 2 pieces",
            resumption="new_process",
            basis="jit_memory_is_lost",
            traceback="Traceback (most recent call last):\n  ...\n" + OOM,
            hint="batch of 64 needs about 6.5 GiB at once; 32 would fit",
        ),
        times(2, 34, productive=7.4, data_wait=0.3, restore=0.3, save_stall=0.1, recovery=0.5),
        ended(2, 118, 34),
        {"kind": "lost", "time": START + 34, "attempt": 2, "steps": 18, "seconds": 4.4},
        {"kind": "rolled_back", "time": START + 34, "attempt": 2, "step": 100},
        attempt(3, 100, 44, "train each batch in 2 pieces", accumulation=2),
        *points(3, 100, 140),
        *fault(
            4,
            3,
            140,
            "process_death",
            55,
            exception="SIGKILL",
            signal=9,
            message="the worker was killed by SIGKILL",
            traceback="",
            phase="process",
            domain="infrastructure",
            resumption="new_process",
            actions=["NewProcess"],
            text="start a new worker from the last checkpoint",
            basis="first_rung",
            memory=memory(1100.0),
        ),
        times(3, 55, startup=8.2, productive=0.3, replayed=4.6, restore=0.5, data_wait=0.2, backoff=1.0),
        ended(3, 140, 55),
        {"kind": "lost", "time": START + 55, "attempt": 3, "steps": 40, "seconds": 10.1},
        {"kind": "rolled_back", "time": START + 55, "attempt": 3, "step": 100},
        attempt(4, 100, 65, "new worker", accumulation=2),
        *points(4, 100, 150),
        checkpoint(150, 4),
        *points(4, 150, 172, nan_from=170),
        *fault(
            5,
            4,
            170,
            "divergence",
            82,
            exception="Divergence",
            message="loss is NaN at step 170",
            actions=["RollBack", "ScaleLearningRate"],
            text="go back to step 150 with half the learning rate",
            basis="second_rung",
        ),
        times(4, 83, startup=8.1, productive=8.4, replayed=9.8, restore=0.5, data_wait=0.4),
        ended(4, 172, 83),
        {"kind": "lost", "time": START + 83, "attempt": 4, "steps": 22, "seconds": 5.4},
        {"kind": "semantic_change", "time": START + 83, "step": 150, "text": "learning rate halved from step 150"},
        {"kind": "semantic_change", "time": START + 20, "step": 34, "text": "1 record left out from step 34"},
        {"kind": "rolled_back", "time": START + 83, "attempt": 4, "step": 150},
        attempt(5, 150, 84, "half the learning rate", accumulation=2, learning_rate_scale=0.5),
        *points(5, 150, 200),
        checkpoint(200, 5),
        times(5, 97, productive=12.1, restore=0.2, data_wait=0.4, save_stall=0.1),
        ended(5, 200, 97, "FINISHED"),
        *gauges(97),
        {"kind": "job_ended", "time": START + 97.4, "outcome": "recovered", "exit_code": 0, "text": ""},
    ]


def record(*more: Entry) -> JobRecord:
    """The example's record, with further entries at its end."""
    found = JobRecord()
    for entry in [*entries(), *more]:
        found.add(entry)
    return found


HOSTILE = (
    '<script>alert("x")</script>',
    "\"><img src=x onerror=alert('x')>",
    "</style></title></pre></svg><script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "图像损坏, 无法解码",
    "\u202egnp.elif שלום",
    "x" * 20_000,
    "\x1b[31mred\x1b[0m\x00\x07\ud800",
)


def poisoned(text: str) -> JobRecord:
    """A small job with this text wherever a text can be."""
    listed: list[Entry] = [
        {"kind": "header", "time": 1.0, "job_id": text},
        {"kind": "job", "time": 1.0, "started": 1.0, "run_name": text, "params": {text: text}, "tags": {text: text}},
        {"kind": "resumed", "time": 1.0, "from_run": text, "from_model": text, "from_step": text, "text": text},
        attempt(1, 0, 1, text, **{"accumulation": 1}),
        {"kind": "points", "time": 2.0, "attempt": 1, "points": [[text, 1, 0.5, 2000], [text, 2, 0.4, 3000]]},
        {"kind": "event", "time": 2.0, "name": text, "text": text, "data": {text: text}, "step": 1},
        {"kind": "event", "time": 2.0, "name": "quarantine", "text": text, "data": {"path": text}, "step": 1},
        *fault(
            1, 1, 1, text, 2, exception=text, message=text, traceback=f"begin {text}", phase=text, domain=text,
            hint=text, actions=[text], text=text, basis=text, chain=[{"exception": text, "message": text}],
            memory={"high_water": {"process_rss_mb": text}, "process_rss_mb": 3.0, "gpus": [{"index": text}, text]},
        ),
        ended(1, 2, 3),
        attempt(2, 0, 4, text, accumulation=text),
        {"kind": "checkpoint", "time": 5.0, "step": 2, "epoch": text, "digest": text, "bytes": text},
        {"kind": "model", "time": 5.0, "local_id": text, "name": text, "step": text},
        {"kind": "semantic_change", "time": 5.0, "step": 1, "text": text},
        {"kind": "reproducible", "time": 5.0, "value": False, "reason": text},
        {"kind": "job_ended", "time": 9.0, "outcome": text, "text": text},
    ]  # fmt: skip
    found = JobRecord()
    for entry in listed:
        found.add(entry)
    return found
