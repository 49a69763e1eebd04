"""What differs between runs besides their results."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_resilience.comparison.values import ComparedRun
from mlflow_resilience.summary import one_line

#: How a run is kept alive: it leaves the result alone.
KEEPING = frozenset(
    {
        *("resume", "recover", "max_attempts", "max_lost_time", "checkpoint_every", "keep"),
        *("fault", "notify", "replay", "diagnostics", "verbose", "policy", "checkpoints"),
    }
)
#: Another draw of the same: what it changes is noise.
SEED = "seed"


def differing(runs: Sequence[ComparedRun]) -> list[str]:
    """The params that are not the same in all runs, in order of first appearance."""
    keys = dict.fromkeys(key for run in runs for key in run.params)
    return [key for key in keys if len({run.params.get(key) for run in runs}) > 1]


def causes(a: ComparedRun, b: ComparedRun) -> list[str]:
    """What is known to have made another result of ``b`` than of ``a``, one phrase each."""
    return [*_params(a, b), *_changes(a, b)]


def _params(a: ComparedRun, b: ComparedRun) -> list[str]:
    found = [key for key in differing((a, b)) if key not in KEEPING]
    keys = {a.resume_key, b.resume_key}
    if keys == {a.resume_key} and a.resume_key:  # equal in all that shapes the result, but for its length
        found = [key for key in found if key == "epochs"]
    elif "" not in keys and not found:
        return ["model, data or training settings differ (resilience.resume_key)"]
    told = [f"{one_line(key, 60)} is {_value(a, key)} and {_value(b, key)}" for key in found if key != SEED]
    return told[:5] + ([f"{len(told) - 5} more params differ"] if len(told) > 5 else [])


def draws(a: ComparedRun, b: ComparedRun) -> str:
    """That the two are different draws of the same, where they are."""
    if a.params.get(SEED) == b.params.get(SEED):
        return ""
    return f"two draws of the same training: {SEED} is {_value(a, SEED)} and {_value(b, SEED)}"


def _value(run: ComparedRun, key: str) -> str:
    return one_line(run.params.get(key, "unset"), 60)


def _changes(a: ComparedRun, b: ComparedRun) -> list[str]:
    if a.changes == b.changes:
        return []
    return [f"recovery changed {run.label}: {'; '.join(run.changes)}" for run in (a, b) if run.changes]


def places(a: ComparedRun, b: ComparedRun) -> list[str]:
    """In what machine and versions differ, or that one of them is not known."""
    if not (a.place and b.place):
        return ["where they ran is not recorded"]
    names = dict.fromkeys([*a.place, *b.place])
    return [
        f"{name} {a.place.get(name, 'unknown')} and {b.place.get(name, 'unknown')}"
        for name in names
        if a.place.get(name) != b.place.get(name)
    ]
