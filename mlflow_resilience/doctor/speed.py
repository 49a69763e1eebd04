"""Whether a training would wait for its data, measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from mlflow_resilience.doctor.finding import Finding
from mlflow_resilience.pipelines import throughput


def measured(data: Any, model: Any, seconds: float) -> Iterator[Finding]:
    """The verdict, and each variant of the pipeline with which a step is a tenth faster at least."""
    if not isinstance(data, tf.data.Dataset):
        yield Finding(severity="note", check="throughput", text="the pace of arrays and of PyDatasets is not measured")
        return
    found = throughput(data, model, seconds=seconds)
    yield Finding(severity="warning" if found.input_bound else "note", check="throughput", text=found.in_words())
    for trial in found.helpful:
        times = f"{found.step_seconds / trial.step_seconds:.1f} times as fast, {trial.step_seconds * 1e3:.3g} ms a step"
        text = f"tried with {trial.name}: {times} over {trial.batches} batches"
        yield Finding(severity="note", check="throughput", text=text, remedy=trial.remedy)
    if found.not_tried:
        yield Finding(severity="note", check="throughput", text=f"not tried: {'; '.join(found.not_tried)}")
