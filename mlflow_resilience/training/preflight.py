"""What is said before the first step: where the same bits cannot be promised, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from mlflow_resilience.core.judge import Journal
from mlflow_resilience.training import reproducible
from mlflow_resilience.training.callback_state import unstorable
from mlflow_resilience.training.environment import differences

if TYPE_CHECKING:
    from mlflow_resilience.training.plan import Plan


def say(plan: Plan, journal: Journal) -> None:
    """Write down what can be known of this `fit` without running it."""
    found = [*reproducible.findings(plan.training["x"]), *reproducible.unseeded_order(plan.training)]
    if plan.validation:
        found += reproducible.findings(plan.validation["x"])
    if found:
        journal.append("reproducible", value=False, reason="; ".join(dict.fromkeys(found)))
    if reproducible.repeats_one_order(plan.training):
        text = (
            "with a seed set, Keras shuffles arrays into the same order in every epoch; a tf.data.Dataset with "
            "shuffle(reshuffle_each_iteration=True) does not"
        )
        _event(journal, plan, "data_order", text)
    names = unstorable(plan.callbacks)
    if names:
        text = (
            f"{', '.join(names)} cannot be stored: a resumed run has it as the script makes it, and may differ if it "
            "decides anything; give the callback get_state() and set_state(state)"
        )
        _event(journal, plan, "callback_state", text, attributes=names)
    if _outlives_epochs(plan):
        text = (
            "the data's iterator outlives the epoch: to find its place, a resume reads from the beginning again, or "
            "from a minute or so before it where tf.data can store the iterator"
        )
        _event(journal, plan, "data_replay", text)
    for name in plan.left_out:
        _event(journal, plan, "callback_left_out", f"{name} is left out: two kinds of recovery would undo each other")


def say_of_resume(plan: Plan, meta: dict[str, Any], journal: Journal) -> None:
    """Write down why training that goes on from the state ``meta`` may differ from one never disturbed."""
    say_of_place(plan, meta, journal)
    lines = []
    if meta["origin"] != plan.origin:
        lines.append("the random state before fit is another one; does the script set its seed?")
    names = unstorable(plan.callbacks)
    if names:
        lines.append(f"{', '.join(names)} could not be stored")
    step = meta["position"]["global_step"]
    _may_differ(lines, step, journal)
    for old, new in zip(meta.get("rates", []), plan.rates, strict=False):
        if old != new:
            text = f"learning rate {old:g} -> {new:g} from step {step + 1}, by the caller"
            journal.append("semantic_change", step=step + 1, text=text)


def say_of_place(plan: Plan, meta: dict[str, Any], journal: Journal) -> None:
    """Write down what of machine, versions and devices is not as it was when the state ``meta`` was taken."""
    lines = differences(meta.get("environment") or {}, plan.environment)
    _may_differ(lines, meta["position"]["global_step"], journal)


def _may_differ(lines: list[str], step: int, journal: Journal) -> None:
    for line in lines:
        journal.append("semantic_change", step=step, text=f"may differ from step {step} on: {line}")


def _outlives_epochs(plan: Plan) -> bool:
    """Whether Keras goes on with one iterator from epoch to epoch."""
    data, steps = plan.training["x"], plan.training["steps_per_epoch"]
    if not steps or not isinstance(data, tf.data.Dataset):
        return False
    cardinality = int(data.cardinality())
    return cardinality < 0 or cardinality > steps


def _event(journal: Journal, plan: Plan, name: str, text: str, **data: Any) -> None:
    journal.append("event", name=name, attempt=0, step=plan.first_step, text=text, data=data)
