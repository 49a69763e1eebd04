"""Is the result of two runs the same? Decided from values alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlflow_resilience.comparison import differences, noise
from mlflow_resilience.comparison.values import ComparedRun

SAME_BITS = "same result bit for bit"
SAME_WITHIN_NOISE = "same within noise"
CHANGED = "changed"
NO_RESULT = "no finished result"
NOTHING_SHARED = "nothing to compare"


@dataclass(frozen=True)
class Verdict:
    """One of the words above, and the sentence that begins with it."""

    word: str
    sentence: str

    @property
    def why(self) -> str:
        """The sentence without its word."""
        return self.sentence.removeprefix(self.word).lstrip(":, ")


@dataclass(frozen=True)
class _Metrics:
    """How the final metrics of two runs compare, each as a phrase."""

    within: list[str]
    beyond: list[str]
    measured: bool = True  # whether the runs tell how large their noise is

    @property
    def compared(self) -> bool:
        return bool(self.within or self.beyond)


def judge(a: ComparedRun, b: ComparedRun) -> Verdict:
    """The verdict on a pair of runs."""
    missing = [run for run in (a, b) if not run.finished]
    if missing:
        return Verdict(NO_RESULT, f"{NO_RESULT}: {'; '.join(_why_unfinished(run) for run in missing)}")
    doubts = _doubts(a, b)
    if a.digest and a.digest == b.digest and not doubts:
        return Verdict(SAME_BITS, f"{SAME_BITS}: the final models have the same digest")
    causes, metrics = differences.causes(a, b), _metrics(a, b)
    if causes:
        return _changed(causes, metrics)
    if metrics.beyond:
        return Verdict(CHANGED, f"{CHANGED}, because {_apart(metrics)}")
    if not metrics.compared and not _same_digest(a, b):
        return Verdict(NOTHING_SHARED, f"{NOTHING_SHARED}: they have no final metric in common")
    return Verdict(SAME_WITHIN_NOISE, _within(a, b, metrics, doubts))


def _why_unfinished(run: ComparedRun) -> str:
    classes = f" ({', '.join(run.failure_classes[:4])})" if run.failure_classes else ""
    return f"{run.label} is {run.outcome}{classes}"


def _doubts(a: ComparedRun, b: ComparedRun) -> list[str]:
    """Why equal bits would not be called so."""
    changed = [f"recovery changed {run.label}: {'; '.join(run.changes)}" for run in (a, b) if run.changes]
    unsure = [f"{run.label} is not reproducible: {run.not_reproducible}" for run in (a, b) if run.not_reproducible]
    return [*changed, *unsure, *differences.places(a, b)]


def _metrics(a: ComparedRun, b: ComparedRun) -> _Metrics:
    within: list[str] = []
    beyond: list[str] = []
    measured = True
    for key in noise.judged_metrics(a, b):
        one, other = a.metrics[key], b.metrics[key]
        most = noise.tolerance([run.curves.get(key, []) for run in (a, b)])
        limit = "" if most is None else f", noise up to {most:.2g}"
        phrase = f"{key} {_number(one)} and {_number(other)}{limit}"
        (within if noise.is_within(one, other, most) else beyond).append(phrase)
        measured = measured and (most is not None or noise.is_within(one, other, None))
    return _Metrics(within, beyond, measured)


def _changed(causes: list[str], metrics: _Metrics) -> Verdict:
    also = ""
    if metrics.beyond:
        also = f" ({_listed(metrics.beyond)})"
    elif metrics.within and not any(cause.startswith("epochs ") for cause in causes):
        also = f" (the final metrics are within noise all the same: {_listed(metrics.within)})"
    return Verdict(CHANGED, f"{CHANGED}, because {'; '.join(causes)}{also}")


def _apart(metrics: _Metrics) -> str:
    why = "the final metrics are further apart than noise, and nothing that was recorded explains it"
    if not metrics.measured:
        why = "the final metrics differ, and there are too few epochs to tell it from noise"
    return f"{why}: {_listed(metrics.beyond)}"


def _within(a: ComparedRun, b: ComparedRun, metrics: _Metrics, doubts: list[str]) -> str:
    told = [_listed(metrics.within)] if metrics.within else []
    if _same_digest(a, b):
        told.append("the final models even have the same digest, which is not promised here: " + "; ".join(doubts))
    elif a.changes:
        told.append(f"recovery changed both alike: {'; '.join(a.changes)}")
    if draws := differences.draws(a, b):
        told.append(draws)
    return f"{SAME_WITHIN_NOISE}: {'; '.join(told)}"


def _same_digest(a: ComparedRun, b: ComparedRun) -> bool:
    return bool(a.digest) and a.digest == b.digest


def _listed(phrases: list[str]) -> str:
    return "; ".join(phrases[:3]) + (f"; and {len(phrases) - 3} more" if len(phrases) > 3 else "")


def _number(value: float) -> str:
    return "not a number" if math.isnan(value) else f"{value:.5g}"
