"""The page of one fault of memory, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlflow_resilience.core.fault import Fault
from mlflow_resilience.forensics.growth import growth
from mlflow_resilience.forensics.need import Need, amount
from mlflow_resilience.recoveries import allocation
from mlflow_resilience.spool.record import FaultRecord, JobRecord
from mlflow_resilience.spool.summary import fault_line

#: The event in which the training process tells how large its model is.
MODEL_SIZE = "model_size"

_MB = 1_000_000
Row = dict[str, Any]


def concerns(fault: FaultRecord) -> bool:
    """Whether it is one of memory."""
    return fault.failure_class in ("device_oom", "host_oom")


def document(record: JobRecord, fault: FaultRecord) -> str:
    """What ran out, what needs it, how it grew, and what would fit."""
    size = _model(record)
    facts = Fault.from_dict(fault.fault)
    need = Need(
        asked=allocation.bytes_asked(facts.message),
        weights=int(size.get("parameters_bytes") or 0),
        optimiser=int(size.get("optimizer_bytes") or 0),
        a_record=int(size.get("activation_bytes") or 0),
        batch_size=facts.batch_size or int(size.get("batch_size") or 0),
        pieces=int(_settings(record, fault).get("accumulation") or 1),
        free=_free(fault),
    )
    lines = [f"# {fault_line(fault)}", "", need.sentence, "", *_asked(facts, need), *_needs(need, size)]
    lines += ["", "## Before the fault", "", growth(_readings(record, fault)).sentence, ""]
    lines += [*_snapshot(fault.memory), *_tables(size)]
    return "\n".join(lines) + "\n"


def _asked(facts: Fault, need: Need) -> Iterator[str]:
    yield "## The allocation that failed"
    yield ""
    yield f"- asked for: {amount(need.asked) if need.asked else 'not told'}"
    for shape, kind in allocation.shapes(facts.message):
        yield f"- a tensor of shape [{shape}]{f' and type {kind}' if kind else ''}"
    if by := allocation.allocator(facts.message):
        yield f"- by allocator {by}"
    yield f"- in {facts.phase}, device {facts.device}, {need.batch_size or 'unknown'} records in {need.pieces} piece(s)"
    if facts.kernel_oom:
        yield "- the kernel ended the process for want of memory"
    yield ""


def _needs(need: Need, size: Row) -> Iterator[str]:
    yield "## What training needs"
    yield ""
    if not size:
        yield "The training process had not told how large its model is."
        return
    yield f"- weights: {amount(need.weights)}, and as much for their gradients"
    yield f"- optimiser: {amount(need.optimiser)}"
    known = f"{amount(need.a_record)} a record (estimate: all layers' outputs)" if need.a_record else "not known"
    yield f"- activations: {known}"
    if size.get("batch"):
        yield f"- batch: {', '.join(f'{kind} {shape}' for kind, shape in size['batch'])}"


def _tables(size: Row) -> Iterator[str]:
    for title, key in (("Largest variables", "largest"), ("Largest outputs, a record", "layers")):
        if size.get(key):
            yield from ("", f"## {title}", "", "| name | shape | bytes |", "| --- | --- | --- |")
            yield from (f"| {name} | {shape} | {amount(count)} |" for name, shape, count in size[key])


def _snapshot(memory: Row) -> Iterator[str]:
    names = {
        "worker_rss_mb": "the training process", "process_rss_mb": "with all that it started",
        "worker_peak_mb": "the training process at most", "host_available_mb": "the machine has left",
        "host_total_mb": "of", "cgroup_limit_mb": "the memory group's limit", "cgroup_used_mb": "used of it",
        "tf_current_mb": "TensorFlow's allocator", "tf_peak_mb": "TensorFlow's allocator at most",
    }  # fmt: skip
    yield from (f"- {words}: {memory[key]:,.0f} MB" for key, words in names.items() if key in memory)
    for gpu in memory.get("gpus") or ():
        used, total, own = (gpu.get(key, "?") for key in ("used_mb", "total_mb", "own_mb"))
        yield f"- GPU {gpu.get('index')} ({gpu.get('name', '?')}): {used} of {total} MB used, {own} MB by this job"


def _model(record: JobRecord) -> Row:
    found = [event.get("data") or {} for event in record.events if event.get("name") == MODEL_SIZE]
    return found[-1] if found else {}


def _settings(record: JobRecord, fault: FaultRecord) -> Row:
    return next((each.settings for each in record.attempts if each.number == fault.attempt), {})


def _free(fault: FaultRecord) -> int:
    """Bytes that were left where memory ran out."""
    memory, gpus = fault.memory, fault.memory.get("gpus") or ()
    if fault.failure_class == "device_oom" and gpus:
        left = [(gpu["total_mb"] - gpu["used_mb"]) for gpu in gpus if "total_mb" in gpu and "used_mb" in gpu]
        return int(max(left, default=0) * _MB)
    if fault.failure_class == "device_oom" or "host_available_mb" not in memory:
        return 0
    left_mb = memory["host_available_mb"]
    if "cgroup_limit_mb" in memory:
        used = memory.get("cgroup_working_mb", memory.get("cgroup_used_mb", 0.0))
        left_mb = min(left_mb, memory["cgroup_limit_mb"] - used)
    return int(max(left_mb, 0.0) * _MB)


def _readings(record: JobRecord, fault: FaultRecord) -> list[tuple[float, float]]:
    """Seconds and megabytes of the job's processes up to the fault."""
    series = record.gauges.get("memory/process_rss_mb") or ()
    return [(ms / 1000, value) for _, value, ms in series if ms / 1000 <= fault.time]
