"""From a run's tags, params and last metrics to plain values."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from typing import Any

from mlflow_resilience.comparison.values import ComparedRun
from mlflow_resilience.summary import one_line

_ATTEMPT = re.compile(r"resilience\.attempt\.(\d+)")
_LARGEST = 1.7e308  # how MLflow's databases keep infinity
_ENDED = ("FINISHED", "FAILED", "KILLED")
MOST_LINES = 50


def compared(run: Any) -> ComparedRun:
    """What a comparison knows of MLflow's ``Run`` before anything else is read."""
    info, tags = run.info, run.data.tags
    return ComparedRun(
        run_id=str(info.run_id),
        experiment_id=str(info.experiment_id),
        name=one_line(info.run_name or "", 80),
        outcome=_outcome(str(info.status), tags),
        deleted=info.lifecycle_stage != "active",
        started=(info.start_time or 0) / 1000,
        seconds=_seconds(info),
        attempts=whole(tags.get("resilience.attempts")),
        faults=whole(tags.get("resilience.faults")),
        failure_classes=_listed(tags.get("resilience.failure_classes")),
        attempt_lines=_attempt_lines(tags),
        metrics={key: _value(value) for key, value in run.data.metrics.items() if "/" not in key},
        params=dict(run.data.params),
        lost_steps=whole(tags.get("resilience.lineage_lost_steps")),
        goodput=run.data.metrics.get("resilience/goodput"),
        resume_key=tags.get("resilience.resume_key", ""),
        changes=changes(tags),
        not_reproducible=_not_reproducible(tags.get("resilience.reproducible", "")),
        place=_place(tags),
    )


def whole(text: str | None) -> int | None:
    """A count that came as text."""
    try:
        return int(float(text)) if text is not None else None
    except (ValueError, OverflowError):
        return None


def changes(tags: Mapping[str, str]) -> tuple[str, ...]:
    """What the run's recovery changed in the result."""
    text = one_line(tags.get("resilience.semantic_changes", ""), 600)
    return (text,) if text else ()


def _outcome(status: str, tags: Mapping[str, str]) -> str:
    told = one_line(tags.get("resilience.outcome", ""), 40)
    if not told or (told == "running" and status in _ENDED):  # its process could not say it any more
        return {"KILLED": "preempted", "FAILED": "failed"}.get(status, status.lower())
    return told


def _seconds(info: Any) -> float | None:
    if not info.start_time:
        return None
    end = info.end_time or (time.time() * 1000 if info.status == "RUNNING" else None)
    return max(0.0, (end - info.start_time) / 1000) if end else None


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(one_line(part, 60) for part in (text or "").split(",") if part.strip())


def _attempt_lines(tags: Mapping[str, str]) -> tuple[str, ...]:
    numbered = sorted((int(found[1]), text) for key, text in tags.items() if (found := _ATTEMPT.fullmatch(key)))
    return tuple(f"{number}. {one_line(text, 400)}" for number, text in numbered[-MOST_LINES:])


def _value(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) >= _LARGEST else value


def _not_reproducible(text: str) -> str:
    word, _, reason = one_line(text, 300).partition(":")
    return "" if word.strip().lower() != "false" else reason.strip() or "no reason was recorded"


def _place(tags: Mapping[str, str]) -> dict[str, str]:
    """Machine and versions, as far as they can change a bit."""
    version = "resilience.version."
    found = {key.removeprefix(version): one_line(tags[key], 60) for key in sorted(tags) if key.startswith(version)}
    for key in ("host", "python"):
        if f"resilience.{key}" in tags:
            found[key] = one_line(tags[f"resilience.{key}"], 80)
    return {key: value for key, value in found.items() if key not in ("mlflow", "mlflow-resilience")}
