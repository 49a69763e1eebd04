"""The action that clips gradients, as a value."""

from __future__ import annotations

from mlflow_resilience.core.action import ClipGradients, RollBack
from mlflow_resilience.core.attempt import AttemptLog, Settings
from mlflow_resilience.core.capability import Capabilities
from mlflow_resilience.core.failure import Recovery, Rung
from mlflow_resilience.core.fault import Fault, Position
from mlflow_resilience.core.policy import Policy, decide

FAULT = Fault(exception="Divergence", phase="step", position=Position(global_step=7), batch_size=4)
RECOVERY = Recovery(
    failure_class="divergence",
    domain="workload",
    matches=lambda fault: True,
    ladder=(Rung((ClipGradients(0.5), RollBack()), times=2),),
    hint="",
)


def test_the_bound_is_halved_each_time_it_did_not_help() -> None:
    """And never rises above what was asked for."""
    clip = ClipGradients(2.0)
    once = clip.change(Settings(), FAULT)
    assert once == Settings(gradient_bound=2.0)
    assert once is not None and clip.change(once, FAULT) == Settings(gradient_bound=1.0)
    assert clip.change(Settings(gradient_bound=10.0), FAULT) == Settings(gradient_bound=2.0)
    assert clip.phrase(Settings(gradient_bound=1.0)) == "gradients clipped to a global norm of 1"
    assert Settings.from_dict(Settings(gradient_bound=0.5).to_dict()).gradient_bound == 0.5


def test_it_is_decided_as_a_change_of_the_result() -> None:
    """Rolled back, another attempt; and never under a strict policy."""
    can = Capabilities(checkpoint=True)
    chosen = decide(FAULT, RECOVERY, AttemptLog(), Settings(), Policy(), can)
    assert (chosen.verdict, chosen.resumption, chosen.opens_attempt) == ("continue", "roll_back", True)
    assert chosen.settings.gradient_bound == 0.5
    refused = decide(FAULT, RECOVERY, AttemptLog(), Settings(), Policy.strict(), can)
    assert (refused.verdict, refused.basis, refused.settings) == ("stop", "changes_result", Settings())
