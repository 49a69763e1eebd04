"""Did it come through? Decided from values alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from mlflow_resilience.core.decision import BASES
from mlflow_resilience.drill.facts import Curves, Facts, as_sequence
from mlflow_resilience.drill.running import KILLED, PREEMPTED
from mlflow_resilience.spool.curve import same
from mlflow_resilience.summary import count, one_line

IDENTICAL = "IDENTICAL"
CHANGED = "CHANGED"
STOPPED_RIGHTLY = "STOPPED_RIGHTLY"
LOST_WORK = "LOST_WORK"
SILENT_DIVERGENCE = "SILENT_DIVERGENCE"
HARD_FAIL = "HARD_FAIL"

#: From the best to the worst.
WORDS = (IDENTICAL, STOPPED_RIGHTLY, CHANGED, LOST_WORK, SILENT_DIVERGENCE, HARD_FAIL)
#: With one of these, the drill has failed.
BAD = frozenset({SILENT_DIVERGENCE, HARD_FAIL})

_FINISHED, _FAILED = 0, 1


@dataclass(frozen=True)
class Expected:
    """What a cell asks for: the ``kinds`` that strike, how often in all, and the steps that one loss may cost."""

    kinds: tuple[str, ...]
    strikes: int
    permitted_steps: int
    stop: str = ""  # the basis on which the job is to stop for good, if it is


@dataclass(frozen=True)
class Verdict:
    """One of WORDS and a sentence; how far each final metric and the weights (relative, 0 to 1 and above) moved."""

    word: str
    text: str
    metrics: dict[str, float] = field(default_factory=dict)
    weights: float | None = None

    @property
    def bad(self) -> bool:
        return self.word in BAD


def judge(undisturbed: Facts, struck: Facts, expected: Expected, weights: float | None = None) -> Verdict:
    """The verdict on a cell. ``struck.changes`` is what the job declared; ``weights`` how far its weights are from the
    undisturbed ones, where both are at hand."""
    if expected.stop and struck.codes[-1:] == (_FAILED,):
        return _stopped(struck, expected)
    wrong = _wrong(undisturbed, struck, expected)
    if wrong:
        return Verdict(HARD_FAIL, "; ".join(wrong))
    moved = moved_metrics(undisturbed.curves, struck.curves)
    differs = _difference(undisturbed, struck, moved)
    lost = _lost(struck, expected)
    if differs and not struck.changes:
        return Verdict(SILENT_DIVERGENCE, f"{differs}, and nothing was declared{_by(moved, weights)}", moved, weights)
    if lost:
        return Verdict(LOST_WORK, lost, moved, weights)
    if differs:
        return Verdict(CHANGED, f"declared: {as_sequence(struck.changes)}{_by(moved, weights)}", moved, weights)
    if PREEMPTED in struck.codes:
        return Verdict(STOPPED_RIGHTLY, "preempted; the same command went on, to the same result bit for bit")
    also = f", though it declares: {as_sequence(struck.changes)}" if struck.changes else ""
    return Verdict(IDENTICAL, f"the same result bit for bit{also}")


def moved_metrics(before: Curves, after: Curves) -> dict[str, float]:
    """How far the final value of each metric moved, of those that moved at any epoch."""
    moved = {}
    for key, points in before.items():
        if key in after and not _same_points(points, after[key]):
            moved[key] = after[key][-1][1] - points[-1][1] if points and after[key] else math.nan
    return moved


def _stopped(struck: Facts, expected: Expected) -> Verdict:
    wrong = [*_struck_too_little(struck, expected), *_left_behind(struck)]
    if struck.outcomes[-1:] != ("failed",):
        wrong.append(f"it failed, and is said to be {', '.join(struck.outcomes) or 'nothing'}")
    if expected.stop not in struck.stops:
        wrong.append(f"it stopped, because of {', '.join(struck.stops) or 'nothing that was written down'}")
    if wrong:
        return Verdict(HARD_FAIL, "; ".join(wrong))
    return Verdict(STOPPED_RIGHTLY, f"{struck.classes[-1]}: {BASES[expected.stop]}")


def _wrong(undisturbed: Facts, struck: Facts, expected: Expected) -> list[str]:
    """What keeps it from having a result to compare, or was left undone."""
    return [
        *_wrong_end(struck, expected),
        *_struck_too_little(struck, expected),
        *_left_behind(struck),
        *_missing(undisturbed, struck),
    ]


def _wrong_end(struck: Facts, expected: Expected) -> list[str]:
    if struck.late:
        return [f"it came to no end in {struck.seconds:.0f} s"]
    *earlier, last = struck.codes or (-1,)
    wrong = []
    may = {PREEMPTED: "term" in expected.kinds, KILLED: "everything" in expected.kinds}
    for code in dict.fromkeys(earlier):
        if not may.get(code, False):
            wrong.append(f"it ended with code {code}, which nothing asked for")
    if last != _FINISHED:
        why = f" ({', '.join(struck.stops)})" if struck.stops else ""
        words = next((line for line in reversed(struck.tail.splitlines()) if line.strip()), "none")
        wrong.append(f"it ended with code {last}{why}, last words: {one_line(words, 200)}")
    elif struck.outcomes[-1] not in ("clean", "recovered"):
        wrong.append(f"it finished, and is said to be {struck.outcomes[-1]}")
    return wrong


def _struck_too_little(struck: Facts, expected: Expected) -> list[str]:
    if len(struck.struck) >= expected.strikes:
        return []
    return [f"{len(struck.struck)} of {count(expected.strikes, 'fault')} struck: the moment did not come"]


def _left_behind(struck: Facts) -> list[str]:
    wrong = []
    if struck.left:
        wrong.append(f"processes are left: {as_sequence(struck.left)}")
    if struck.running:
        wrong.append(f"runs are left RUNNING: {as_sequence(struck.running)}")
    if "running" in struck.outcomes[-1:]:
        wrong.append("its journal has no end")
    return wrong


def _missing(undisturbed: Facts, struck: Facts) -> list[str]:
    if struck.codes[-1:] != (_FINISHED,):
        return []
    wrong = [] if struck.digest else ["there is no finished model"]
    for key, points in undisturbed.curves.items():
        there = {step for step, _ in struck.curves.get(key, ())}
        lacking = [step for step, _ in points if step not in there]
        if lacking:
            wrong.append(f"{key} is missing at step {', '.join(map(str, lacking[:5]))}")
    return wrong


def _difference(undisturbed: Facts, struck: Facts, moved: dict[str, float]) -> str:
    """What is not the same, in words; empty where all is."""
    if struck.digest != undisturbed.digest:
        return "the final model is another one"
    return f"the model is the same, but not the metrics of each epoch ({', '.join(moved)})" if moved else ""


def _lost(struck: Facts, expected: Expected) -> str:
    """Steps that were done again without need; empty where none were."""
    spoilt = int("torn_checkpoint" in expected.kinds)
    needless = sum(loss.avoidable(spoilt) for loss in struck.losses)
    if needless:
        return f"{count(needless, 'step')} done again though a whole checkpoint had them ({_told(struck)})"
    longest = max((loss.steps for loss in struck.losses), default=0)
    if longest > expected.permitted_steps * (1 + spoilt):
        permitted = f"the cadence permits {expected.permitted_steps * (1 + spoilt)}"
        return f"{count(longest, 'step')} done again, where {permitted} ({_told(struck)})"
    return ""


def _told(struck: Facts) -> str:
    return ", ".join(f"from {loss.at} to {loss.to}" for loss in struck.losses)


def _by(moved: dict[str, float], weights: float | None) -> str:
    parts = [f"{key} by {value:+.3g}" for key, value in _monitored(moved).items()]
    parts += [f"weights by {weights:.2g} of their norm"] if weights is not None else []
    return f" ({', '.join(parts)})" if parts else ""


def _monitored(moved: dict[str, float]) -> dict[str, float]:
    """Those of validation, where there are any."""
    return {key: value for key, value in moved.items() if key.startswith("val_")} or moved


def _same_points(before: Sequence[tuple[int, float]], after: Sequence[tuple[int, float]]) -> bool:
    there = dict(after)
    return all(step in there and same(value, there[step]) for step, value in before)
