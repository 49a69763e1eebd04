"""Whether a training waits for its data, and what would help: measured, each for a few seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from mlflow_resilience.errors import UsageError
from mlflow_resilience.pipelines.pacing import Step, pace
from mlflow_resilience.pipelines.variants import Variant, variants

#: A variant is worth naming when a step takes a tenth less: less is what two measurements of one thing differ by.
WORTH = 0.9


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A variant of the pipeline, tried: the seconds of a step with it, and how to have it."""

    name: str
    step_seconds: float
    batches: int
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Seconds a batch: to come when nothing else is done, to compute when it is there, and both, as in training."""

    input_seconds: float
    compute_seconds: float
    step_seconds: float
    trials: tuple[Trial, ...] = ()
    not_tried: tuple[str, ...] = ()

    @property
    def input_bound(self) -> bool:
        """Whether batches take longer to come than to compute."""
        return self.input_seconds > self.compute_seconds

    @property
    def waiting(self) -> float:
        """The share of a step, 0 to 1, in which nothing is computed."""
        return max(0.0, 1.0 - self.compute_seconds / self.step_seconds)

    @property
    def helpful(self) -> tuple[Trial, ...]:
        """The trials with which a step takes a tenth less at least, the best first."""
        better = [each for each in self.trials if each.step_seconds < WORTH * self.step_seconds]
        return tuple(sorted(better, key=lambda trial: trial.step_seconds))

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {**dataclasses.asdict(self), "input_bound": self.input_bound, "waiting": self.waiting}

    def in_words(self) -> str:
        """The verdict with its evidence."""
        times = f"a batch takes {_ms(self.input_seconds)} to come and {_ms(self.compute_seconds)} to compute"
        together = f"a step {_ms(self.step_seconds)}"
        if not self.input_bound:
            return f"bound by computing: {times}; {together}"
        return f"bound by its input: {times}; {together}, of which {self.waiting:.0%} is waiting"


def throughput(dataset: Any, model: Any, *, seconds: float = 3.0) -> Throughput:
    """Measure a batched pipeline with a compiled model, and what could be changed about it: each for so many seconds.

    The model is left as it was; the pipeline has been read, so make it anew for training. Raises UsageError for what is
    no tf.data pipeline, for one without batches, and for a model that is not compiled.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise UsageError(f"throughput: a tf.data pipeline is needed, not {type(dataset).__name__}")
    if not getattr(model, "compiled", False):
        raise UsageError("throughput: a compiled model is needed")
    if not seconds > 0:
        raise UsageError(f"seconds={seconds}: a number above 0 is needed")
    with Step.of(model, dataset) as step:
        read, both = pace(dataset, None, seconds), pace(dataset, step, seconds)
        computed = pace(step.same_batch(), step, seconds)
        possible, impossible = variants(dataset, seconds=seconds, input_seconds=read.seconds)
        trials = tuple(_tried(possible, step, seconds))
    return Throughput(
        input_seconds=read.seconds,
        compute_seconds=computed.seconds,
        step_seconds=both.seconds,
        trials=trials,
        not_tried=impossible,
    )


def _tried(possible: list[Variant], step: Step, seconds: float) -> Iterator[Trial]:
    for each in possible:
        found = pace(each.dataset, step, seconds, first=each.warm_up)
        yield Trial(name=each.name, step_seconds=found.seconds, batches=found.batches, remedy=each.remedy)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
