"""Whose memory it was: what ran out, what needs it, how it grew, what would fit."""

from __future__ import annotations

from typing import Any

import pytest

from mlflow_resilience.forensics import MODEL_SIZE, concerns, document
from mlflow_resilience.forensics.growth import growth
from mlflow_resilience.forensics.need import Need, amount
from mlflow_resilience.spool.record import JobRecord

MB = 1_000_000
OOM = "OOM when allocating tensor with shape[64,256,256] and type float on /job:localhost/device:CPU:0 by allocator cpu"
SIZES = {
    "parameters_bytes": 10 * MB,
    "optimizer_bytes": 20 * MB,
    "activation_bytes": 1 * MB,
    "batch_size": 64,
    "batch": [["float32", "(None, 8)"]],
    "largest": [["dense/kernel", "(1000, 2500)", 10 * MB]],
    "layers": [["conv", "(64, 64, 61)", MB]],
}


def record_of(fault: dict[str, Any], memory: dict[str, Any], failure_class: str = "host_oom") -> JobRecord:
    record = JobRecord()
    record.add({"kind": "header", "job_id": "j"})
    record.add({"kind": "attempt", "attempt": 1, "step": 0, "settings": {"accumulation": 2}})
    record.add({"kind": "event", "name": MODEL_SIZE, "data": SIZES})
    for second in range(120):
        record.add({"kind": "gauges", "points": [["memory/process_rss_mb", second, 1000.0 + second, second * 1000]]})
    judged = {"failure_class": failure_class, "failure_domain": "workload"}
    record.add({"kind": "fault", "attempt": 1, "number": 1, "time": 119.0, "fault": fault, "memory": memory, **judged})
    return record


def page(fault: dict[str, Any], memory: dict[str, Any], failure_class: str = "host_oom") -> str:
    record = record_of(fault, memory, failure_class)
    assert concerns(record.faults[0])
    return document(record, record.faults[0])


def test_the_page_of_a_failed_allocation() -> None:
    """Everything that the journal knows about it is on it."""
    fault = {"exception": "ResourceExhaustedError", "message": OOM, "phase": "step", "batch_size": 64, "device": "CPU"}
    told = page(fault, {"host_available_mb": 40.0, "worker_rss_mb": 1100.0})
    for part in (
        "About 20 of the batch's 64 records would fit at once into the 40.0 MB that were free: 4 micro-batches",
        "asked for: 16.8 MB",
        "a tensor of shape [64,256,256] and type float",
        "by allocator cpu",
        "64 records in 2 piece(s)",
        "weights: 10.0 MB, and as much for their gradients",
        "optimiser: 20.0 MB",
        "activations: 1.0 MB a record",
        "Memory rose steadily (+119 MB in the last 2.0 min, 60 MB a minute), as a leak does.",
        "- the training process: 1,100 MB",
        "| dense/kernel | (1000, 2500) | 10.0 MB |",
    ):
        assert part in told


def test_a_kill_by_the_kernel_is_told_too() -> None:
    """The process is gone, and what it said of its model is not."""
    fault = {"exception": "SIGKILL", "message": "killed", "phase": "step", "kernel_oom": True, "signal": 9}
    told = page(fault, {"host_available_mb": 5000.0, "cgroup_limit_mb": 2000.0, "cgroup_working_mb": 1999.0})
    assert "Not even one record fits" in told
    assert "the kernel ended the process for want of memory" in told


def test_on_a_device_its_own_memory_counts() -> None:
    """What the machine has left says nothing about a GPU."""
    fault = {"exception": "ResourceExhaustedError", "message": "OOM", "phase": "step", "batch_size": 64}
    gpus = [{"index": 0, "name": "G", "used_mb": 900.0, "total_mb": 1000.0, "own_mb": 800.0}]
    told = page(fault, {"host_available_mb": 90_000.0, "gpus": gpus}, "device_oom")
    assert "32 records fit at once (about 64.0 MB of the 100.0 MB that were free)" in told
    assert "900.0 of 1000.0 MB used" in told


@pytest.mark.parametrize(
    ("need", "said"),
    [
        (Need(asked=5 * MB, free=2 * MB), "5.0 MB was asked for, and 2.0 MB were free"),
        (Need(), "an amount that is not known was asked for, and how much was free is not known"),
        (Need(a_record=3 * MB, batch_size=8, free=5 * MB), "Not even one record fits"),
        (Need(a_record=MB, batch_size=8, free=9 * MB), "About 4 of the batch's 8 records would fit at once"),
        (Need(a_record=MB, batch_size=8, free=9 * MB, pieces=2), "By this estimate 4 records fit at once"),
        (Need(a_record=MB, batch_size=8, free=900 * MB), "By this estimate 8 records fit at once"),
    ],
)
def test_what_would_fit_in_one_sentence(need: Need, said: str) -> None:
    """Plain, and never a promise beyond what is known."""
    assert said in need.sentence


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ([100.0] * 5, "unknown"),
        ([100.0] * 200, "flat"),
        ([100.0 + second for second in range(200)], "steady"),
        ([100.0 + 9 * second for second in range(20)], "rising"),
        ([100.0] * 100 + [400.0] * 100, "step"),
        ([500.0] * 400 + [100.0] * 300, "flat"),
    ],
)
def test_how_memory_grew(values: list[float], shape: str) -> None:
    """Of the last five minutes, with a reading a second."""
    found = growth([(float(second), value) for second, value in enumerate(values)])
    assert found.shape == shape
    assert found.sentence.endswith(".")


def test_only_faults_of_memory_have_such_a_page() -> None:
    """Any other class has its exception file alone."""
    record = record_of({"exception": "E"}, {}, "unknown")
    assert not concerns(record.faults[0])


def test_amounts_in_words() -> None:
    """Powers of ten, as all figures of memory here."""
    assert [amount(each) for each in (5, 1500, 2_000_000, 3 * 10**9, 4 * 10**12)] == [
        "5 B",
        "1.5 kB",
        "2.0 MB",
        "3.0 GB",
        "4.00 TB",
    ]
