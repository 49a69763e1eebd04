"""The loss or the gradients are no longer finite, or have jumped out of their own history."""

from __future__ import annotations

from mlflow_resilience.core.action import RollBack, ScaleLearningRate, SkipBatch
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault
from mlflow_resilience.core.text import words

_WORDS = words(
    r"check_?numerics",
    r"\bdiverg|nanloss",
    r"invalid loss",
    r"\b(?:loss|gradients?|norm|weights?|tensor|output|activation\w*|values?|predictions?|float)\b"
    r".*\b(?:nan|infs?|infinit[ey]|non-?finite)\b",
    r"\b(?:nan|infs?|infinit[ey]|non-?finite)\b.*\b(?:loss|gradients?|norm|weights?|tensor|output|summary|histogram|detected)\b",
    r"(?:decomposition|inversion).*\bsuccessful|input (?:matrix )?is not invertible",
)


def matches(fault: Fault) -> bool:
    """Words about numbers that are not finite, or about the loss."""
    return fault.phase != "data" and fault.says(_WORDS)


RECOVERY = Recovery(
    failure_class="divergence",
    domain="workload",
    matches=matches,
    ladder=(
        Rung((SkipBatch(), RollBack()), times=2),
        Rung((ScaleLearningRate(), RollBack()), times=3),
    ),
    hint="The training diverges: a lower learning rate or a warm-up, clipped gradients, from_logits=True with a plain "
    "last layer, or inputs that are not scaled; look for NaN in the data.",
)
