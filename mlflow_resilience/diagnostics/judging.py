"""All rules over one trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mlflow_resilience.diagnostics import generalisation, gradients, progress, updates
from mlflow_resilience.diagnostics.trace import Trace
from mlflow_resilience.diagnostics.verdict import Verdict, worst_first

Rule = Callable[[Trace], Iterator[Verdict]]

RULES: tuple[Rule, ...] = (
    gradients.exploding,
    gradients.vanishing,
    updates.dead_units,
    updates.rate_high,
    updates.rate_low,
    progress.oscillation,
    progress.plateau,
    generalisation.overfitting,
    generalisation.underfitting,
)


def verdicts(trace: Trace) -> list[Verdict]:
    """What is wrong with the training now, worst first; empty when nothing is. Pure: the same trace, the same words."""
    return worst_first([verdict for rule in RULES for verdict in rule(trace)])
